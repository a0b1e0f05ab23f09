#!/usr/bin/env python3
"""Writes the seeds of fuzz_note, ELF files of a few hundred bytes, to tests/fuzz/corpus/note."""
import pathlib
import struct


def note(major=0, minor=1, floor=1, isa=0, slot=3, reserved=0, ident=b"org.tenon.seed"):
    return struct.pack("<III4s6I64s", 4, 88, 1, b"TEN\0", major, minor, floor, isa, slot, reserved, ident)


def elf(notes, align=4, sections=True, before=b"", load=None, machine=62):
    body = before + b"".join(notes)
    names = b"\0.note.tenon\0.shstrtab\0"
    at = 64 + 2 * 56
    table = at + len(body) + len(names)
    table += -table % 8
    shnum = 3 if sections else 0
    head = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, table if sections else 0, 0, 64, 56, 2, 64, shnum,
                        2 if sections else 0)
    size = at + len(body) if load is None else load
    out = head
    out += struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, size, size, 4096)
    out += struct.pack("<IIQQQQQQ", 4, 4, at, at, at, len(body), len(body), align)
    out += body + names
    if sections:
        out += bytes(table - len(out)) + bytes(64)
        out += struct.pack("<IIQQQQIIQQ", 1, 7, 2, at + len(before), at + len(before), len(body) - len(before), 0, 0, 4, 0)
        out += struct.pack("<IIQQQQIIQQ", 13, 3, 0, 0, at + len(body), len(names), 0, 0, 1, 0)
    return out


GNU = struct.pack("<III4s", 4, 20, 3, b"GNU\0") + bytes(20)
SEEDS = {
    "one": elf([note()]),
    "two": elf([note(), note(slot=7, ident=b"org.tenon.other")]),
    "no_sections": elf([note()], sections=False),
    "build_id_first": elf([note()], before=GNU),
    "align_8": elf([note(), note()], align=8),
    "none": elf([]),
    "short": elf([note()[:60]]),
    "other_machine": elf([note()], machine=183),
    "load_outside": elf([note()], load=1 << 40),
    "every_field_wrong": elf([note(9, 9, 9, 9, 99, 9, b"X" * 64)]),
}

if __name__ == "__main__":
    folder = pathlib.Path(__file__).parent / "corpus" / "note"
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in SEEDS.items():
        (folder / name).write_bytes(data)
