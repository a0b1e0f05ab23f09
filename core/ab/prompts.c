/* prompts: see prompts.h. */
#include "ab/prompts.h"

static const char *const prompts[] = {
    "The ferry left the island an hour late, because the captain had waited for the doctor. She came down the pier "
    "with "
    "her bag in one hand and a basket of eggs in the other, and nobody on deck complained. The sea was grey and almost "
    "flat. Behind them the lighthouse grew smaller, and the children counted the seconds between its flashes. When the "
    "doctor had caught her breath she sat down on a coil of rope and began to tell us what had happened in the night:",
    "Bread with walnuts, one loaf. Ingredients: 500 g of wheat flour, 10 g of salt, 7 g of dry yeast, 320 g of water, "
    "120 g of walnuts. First, mix flour, salt and yeast in a large bowl. Second, add the water and knead for ten "
    "minutes, "
    "until the dough no longer sticks to the bowl. Third, let it rise in a warm place for one hour. Fourth, fold in "
    "the "
    "walnuts and shape the loaf. Fifth,",
    "/* Returns the index of the first element of a sorted array that is not less than key, or n when there is none. "
    "*/\n"
    "static size_t lower_bound(const int *a, size_t n, int key)\n{\n  size_t low = 0, high = n;\n  while (low < high) "
    "{\n"
    "    size_t mid = low + (high - low) / 2;\n    if (a[mid] < key)\n      low = mid + 1;\n    else\n      high = "
    "mid;\n"
    "  }\n  return low;\n}\n\n/* Returns the number of elements of a sorted array that are equal to key. */\n"
    "static size_t count_equal(const int *a, size_t n, int key)\n{\n",
    "Question: A train leaves the northern station at nine o'clock and travels at 80 km an hour. A second train leaves "
    "the southern station, 300 km away, at ten o'clock and travels towards the first at 140 km an hour. At what time "
    "do "
    "they meet, and how far from the northern station is that?\nAnswer: Let us write down what we know. At ten o'clock "
    "the first train has already travelled 80 km, so the distance between the trains is",
    "Minutes of the meeting of the garden society, held on the second Tuesday of March. Present: eleven members and "
    "two "
    "guests. The chair opened the meeting at seven. The treasurer reported that the society has spent less on seeds "
    "than "
    "in the year before, but more on water. It was agreed that the rain barrels behind the shed should be repaired "
    "before "
    "summer. The question of the old apple tree was discussed at length. Some members held that",
    "| city | founded | people | river |\n|---|---|---|---|\n| Aldermoor | 1204 | 31,000 | Tane |\n| Brisk | 1388 | "
    "12,400 "
    "| Lower Tane |\n| Corvan | 1511 | 87,900 | Ister |\n| Dunmere | 1190 | 6,200 | none |\n| Eastwick | 1702 | "
    "143,000 | "
    "Ister |\n\nThe table above lists the five cities of the province in alphabetical order. The oldest of them is "
    "Dunmere, "
    "founded in 1190. The largest is",
    "\"You said you would be here at noon,\" Marta said without looking up from the engine.\n\"I said I would try,\" "
    "answered Jonas. He put the box of parts on the bench. \"The bridge was closed. I had to walk around by the "
    "mill.\"\n"
    "\"And the gasket?\"\n\"In the box. The last one they had.\"\nShe wiped her hands and opened the box. For a while "
    "neither "
    "of them spoke. Outside a dog barked twice. Then Marta held the gasket up against the light and said,",
    "Migratory birds find their way by several means at once. They see the position of the sun and the pattern of the "
    "stars, they sense the direction of the magnetic field of the Earth, and they remember the shape of coasts and "
    "valleys "
    "that they have crossed before. Young birds that fly for the first time, without older ones to lead them, still "
    "reach "
    "the right part of the continent. Experiments with birds raised under an artificial sky have shown that",
    "Dear Ms Okafor,\n\nThank you for your letter of the 14th about the broken heating in your flat. I am sorry that "
    "you "
    "had to wait for an answer. Our technician visited the building on Thursday and found that the pump in the cellar "
    "has "
    "to be replaced. The new pump has been ordered and will arrive within five days. Until then we can offer you two "
    "electric heaters, free of charge. Please let us know",
    "A short history of paper. Before paper, people wrote on clay, bone, bamboo, silk and the skins of animals. Paper "
    "made "
    "from plant fibres was known in China about two thousand years ago; it was light, cheap and easy to store. From "
    "there "
    "the craft travelled slowly west, from city to city, along with the merchants who needed it for their accounts. "
    "The "
    "first mills in Europe were driven by water. What changed everything was",
};

const char *tn_ab_prompt_at(uint32_t i) { return i < TN_ARRAY_LEN(prompts) ? prompts[i] : NULL; }
