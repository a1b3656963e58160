"""Derives broken sets from golden ones: each is wrong in one way and valid in all others, with matching
checksums, so that a reader reaches the fault. Deterministic.

    make.py       writes tests/broken/CASE/ for every case (test_broken.py checks that they are so)

It is the second writer, as tests/second_reader.py is the second reader: structures as FORMAT.md defines
them, parsed, changed and written again."""
import copy
import os
import shutil
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, ".."))
import second_reader as reader  # noqa: E402
import zstandard  # noqa: E402

GOLDEN = os.path.join(HERE, "..", "golden")
align, xxh, xxh128 = reader.align, reader.xxh, reader.xxh128
BIG = 1 << 62


class Shard:
    """A shard's parts, to be changed; bytes() joins them."""

    def __init__(self, golden):
        self.__dict__.update({name: copy.copy(getattr(golden, name)) for name in (
            "compressed", "generation", "first", "positions", "count", "payload_bytes")})
        self.number = self.footer_number = int(golden.name[6:-4])
        self.magic, self.version, self.prefix = b"FFSHARD\n", golden.version, golden.data[:8]
        self.footer_version = golden.version
        self.records = [list(reader.RECORD_FIELDS.unpack(golden.section[0][64 * i : 64 * i + 64]))
                        for i in range(golden.count)]
        self.labels, self.keys = golden.section[1], golden.section[2]
        self.frames = [list(reader.FRAME_FIELDS.unpack(golden.section[3][at : at + 64]))
                       for at in range(0, len(golden.section[3]), 64)]
        self.text, self.body = golden.section[4], golden.data[4096 : golden.samples_end]
        self.header_extra = {}  # offset -> bytes, before the checksum
        self.footer_extra = {}
        self.metadata_id = self.seek_rows = self.samples_end = None
        self.seek_flags = self.tail_more = 0

    def bytes(self):
        header = bytearray(4096)
        struct.pack_into("<8s8sIIIIQQ16s", header, 0, self.prefix, self.magic, self.version,
                         self.number, self.generation, 0, self.first, self.positions,
                         self.metadata_id or xxh128(self.text))
        for at, data in self.header_extra.items():
            header[at : at + len(data)] = data
        struct.pack_into("<Q", header, 4088, xxh(header[:4088]))
        records = b"".join(reader.RECORD_FIELDS.pack(*r) for r in self.records)
        frames = b"".join(reader.FRAME_FIELDS.pack(*f) for f in self.frames)
        end = 4096 + len(self.body)
        at, tail, table = end + (8 if self.compressed else 0), b"", []
        for content in (records, self.labels, self.keys, frames, self.text):
            tail += bytes(align(at, 64) - at) + content
            table.append((align(at, 64), len(content), xxh(content)))
            at = align(at, 64) + len(content)
        tail += bytes(align(at, 64) - at)
        at = align(at, 64)
        seek = b""
        if self.compressed:
            size = at + 256 - end
            rows = [(4096, 0)] + [(f[1], f[4]) for f in self.frames] + [(size, 0)]
            seek = struct.pack("<II", 0x184D2A5E, 8 * len(rows) + 9)
            seek += b"".join(struct.pack("<II", c & 0xFFFFFFFF, d & 0xFFFFFFFF) for c, d in rows)
            seek += struct.pack("<IBI", self.seek_rows or len(rows), self.seek_flags, 0x8F92EAB1)
            tail = struct.pack("<II", 0x184D2A50, size - 8 + self.tail_more) + tail
        footer = bytearray(256)
        struct.pack_into("<8sIIQQQ8sQQ", footer, 0, b"FFSFOOT\n", self.footer_version, self.footer_number, self.count,
                         end if self.samples_end is None else self.samples_end,
                         self.payload_bytes, bytes(header[4088:]), len(seek),
                         xxh(seek) if seek else 0)
        for i, row in enumerate(table):
            struct.pack_into("<QQQ", footer, 64 + 24 * i, *row)
        for place, data in self.footer_extra.items():
            footer[place : place + len(data)] = data
        struct.pack_into("<Q", footer, 248, xxh(footer[:248]))
        self.footer_at = at
        self.identity = struct.unpack_from("<Q", footer, 248)[0]
        return bytes(header) + self.body + tail + bytes(footer) + seek


class Set:
    """A golden set's parts. files() joins them: {name: bytes}."""

    def __init__(self, name):
        golden = reader.Split(os.path.join(GOLDEN, name if "/" in name else "v0/" + name, "set"))
        self.shards = [Shard(s) for s in golden.shards]
        self.ids = golden.ids()
        self.order = [(k, i) for _, k, i in golden.order]
        self.text = golden.metadata.text
        self.magic, self.version = b"FFINDEX\n", golden.metadata.version
        self.generation = len(golden.metadata.generations)
        self.header_extra, self.row_extra, self.entry_extra = {}, {}, {}
        self.first_bytes = {}  # section of the index -> what its first bytes are instead
        self.sample_count = self.shard_count = None
        self.names = {}  # shard -> file name
        self.resum = True

    def everywhere(self, text):
        """The metadata of all shards and the index."""
        self.text = text
        for shard in self.shards:
            shard.text = text
        return self

    def newest(self, old, new):
        """The metadata of the newest generation, in its shards and the index."""
        assert old in self.text, old
        self.text = self.text.replace(old, new, 1)
        for shard in self.shards:
            if shard.generation == self.generation:
                shard.text = self.text
        return self

    def replace(self, old, new):
        assert old in self.text, old
        return self.everywhere(self.text.replace(old, new, 1))

    def files(self):
        out = {}
        for k, shard in enumerate(self.shards):
            out[self.names.get(k, "shard-%06d.ffs" % k)] = shard.bytes()
        out["index.ffx"] = self.index(list(self.sizes()))
        return out

    def sizes(self):
        for shard in self.shards:
            yield len(shard.bytes())

    def index(self, sizes):
        rows, base, bases = [], 0, []
        for size, s in zip(sizes, self.shards):
            rows.append([size, s.footer_at, s.identity, s.first, s.positions, s.count,
                         s.generation, bytes(12)])
            bases.append(base)
            base += len(s.keys)
        for (k, field), value in self.row_extra.items():
            rows[k][field] = value
        entries, labels = [], b""
        for k, i in self.order:
            s = self.shards[k]
            record = list(s.records[i])
            record[5] += bases[k]
            entries.append(record)
            row = len(s.labels) // len(s.records)
            labels += s.labels[row * i : row * i + row]
        for (n, field), value in self.entry_extra.items():
            entries[n][field] = value
        parts = [self.text, b"".join(reader.ROW_FIELDS.pack(*r) for r in rows),
                 b"".join(reader.RECORD_FIELDS.pack(*e) for e in entries), labels,
                 b"".join(s.keys for s in self.shards)]
        for number, data in self.first_bytes.items():
            parts[number] = data + parts[number][len(data):]
        body, table = b"", []
        for part in parts:
            body += bytes(-len(body) % 64)
            table.append((4096 + len(body), len(part), 0))
            body += part
        body += bytes(-len(body) % 64)
        sums = b"".join(struct.pack("<Q", xxh(body[at : at + 65536]))
                        for at in range(0, len(body), 65536))
        table.append((4096 + len(body), len(sums), xxh(sums)))
        body += sums
        body += bytes(-len(body) % 64)
        header = bytearray(4096)
        count = len(entries) if self.sample_count is None else self.sample_count
        shards = len(rows) if self.shard_count is None else self.shard_count
        struct.pack_into("<8sIIQQI16s16s16s", header, 0, self.magic, self.version, shards,
                         4096 + len(body), count, self.generation, *self.ids)
        for i, row in enumerate(table):
            struct.pack_into("<QQQ", header, 84 + 24 * i, *row)
        for at, data in self.header_extra.items():
            header[at : at + len(data)] = data
        struct.pack_into("<Q", header, 4088, xxh(header[:4088]))
        return bytes(header) + body


CASES = {}


def case(function):
    CASES[function.__name__.replace("_", "-")] = function
    return function


def changed(name, change, golden="f16-chw"):
    """A case whose files are those of a set after change(set)."""
    def build():
        made = Set(golden)
        result = change(made)
        return result if isinstance(result, dict) else made.files()
    CASES[name] = build


def u64(*values):
    return struct.pack("<%dQ" % len(values), *values)


def u32(value):
    return struct.pack("<I", value)


# Whole files.
changed("index-empty", lambda s: {**s.files(), "index.ffx": b""})
changed("index-of-zeros", lambda s: {**s.files(), "index.ffx": bytes(5000)})
changed("index-cut", lambda s: {**s.files(), "index.ffx": s.files()["index.ffx"][:-64]})
changed("index-cut-in-header", lambda s: {**s.files(), "index.ffx": s.files()["index.ffx"][:1000]})
changed("index-longer", lambda s: {**s.files(), "index.ffx": s.files()["index.ffx"] + bytes(64)})
changed("shard-empty", lambda s: {**s.files(), "shard-000000.ffs": b""})
changed("shard-cut", lambda s: {**s.files(),
                                "shard-000000.ffs": s.files()["shard-000000.ffs"][:-1]})
changed("shard-missing", lambda s: {"index.ffx": s.files()["index.ffx"]})
changed("shard-is-the-index", lambda s: {"index.ffx": s.files()["index.ffx"],
                                         "shard-000000.ffs": s.files()["index.ffx"]})


@case
def shards_swapped():
    files = Set("shuffled-shards").files()
    files["shard-000000.ffs"], files["shard-000001.ffs"] = (files["shard-000001.ffs"],
                                                            files["shard-000000.ffs"])
    return files


@case
def shard_of_another_set():
    files, other = Set("f16-chw").files(), Set("u16-hwc").files()
    return {**files, "shard-000000.ffs": other["shard-000000.ffs"]}


# The index's header.
def index(name, **fields):
    changed("index-" + name, lambda s: s.__dict__.update(fields))


index("magic", magic=b"FFINDEY\n")
index("version-1", version=1)
index("reserved-bytes", header_extra={3000: b"\1"})
index("file-size", header_extra={16: u64(1 << 40)})
index("no-samples", sample_count=0)
index("huge-count", sample_count=1 << 40)
index("count-times-64-overflows", sample_count=(1 << 58) + 6)
index("no-shards", shard_count=0)
index("huge-shard-count", shard_count=0xFFFFFFFF)
index("section-before-the-last", header_extra={84 + 48: u64(4096)})
index("sections-overlap", header_extra={84 + 72: u64(4160)})
index("section-overflows", header_extra={84 + 48 + 8: u64((1 << 64) - 64)})
index("section-beyond-the-end", header_extra={84 + 96: u64(BIG)})
index("content-id", ids=(bytes(16),) * 3)


# Rows and entries: the row's or record's field, by its number.
def row(name, field, value, golden="f16-chw"):
    changed("row-" + name, lambda s: s.row_extra.update({(0, field): value}), golden)


def entry(name, field, value, golden="f16-chw", n=1):
    changed("entry-" + name, lambda s: s.entry_extra.update({(n, field): value}), golden)


row("file-size", 0, BIG)
row("footer-offset", 1, 4096)
row("footer-checksum", 2, 1)
row("first-position", 3, 1)
row("huge-sample-count", 5, BIG)
row("fewer-samples", 5, 3)
row("generation", 6, 7)
row("reserved-bytes", 7, b"\1" + bytes(11))
index("label-of-another", first_bytes={3: b"\4"})
index("key-of-another", first_bytes={4: b"?"})
entry("item", 0, 99)
entry("item-twice", 0, 0)
entry("offset-beyond-the-file", 1, BIG)
entry("offset-at-the-end", 1, 4800)
entry("offset-in-the-header", 1, 0)
entry("offset-unaligned", 1, 4096 + 65)
entry("offset-of-another", 1, 4096)
entry("offset-beyond-the-payload", 1, BIG - BIG % 64, "zstd-shuffle")
entry("offset-inside-a-slot", 1, 128, "zstd-shuffle")
entry("bytes", 2, BIG)
entry("checksum", 3, 0)
entry("source-checksum", 4, 0)
entry("key-offset", 5, BIG)
entry("height", 6, 2)
entry("height-0", 6, 0, "variable-size")
entry("height-huge", 6, 0xFFFFFFFF, "variable-size")
entry("width-huge", 7, 0xFFFFFFFF, "variable-size")
entry("shard", 8, 1)
entry("shard-huge", 8, 0xFFFFFFFF)
entry("key-bytes", 9, 0xFFFF)
entry("reserved-bytes", 10, 1)


# The shard, with an index made of it.
def shard(name, golden="f16-chw", **fields):
    changed("shard-" + name, lambda s: s.shards[0].__dict__.update(fields), golden)


def record(name, field, value, golden="f16-chw", n=1):
    def change(s):
        s.shards[0].records[n][field] = value
    changed("record-" + name, change, golden)


def frame(name, field, value, golden="zstd-shuffle"):
    def change(s):
        s.shards[0].frames[0][field] = value
    changed("frame-" + name, change, golden)


shard("magic", magic=b"FFSHARE\n")
shard("version-1", version=1)
shard("number", number=1, footer_number=1)
shard("footer-number", footer_number=1)
shard("prefix", prefix=b"ffpack\n\n")
shard("zstd-prefix-on-a-raw-shard", prefix=struct.pack("<II", 0x184D2A50, 4088))
shard("raw-prefix-on-a-zstd-shard", golden="zstd-shuffle", prefix=b"ffpack\r\n")
shard("positions", positions=1)
shard("no-positions", positions=0)
shard("first-position", first=64)
shard("reserved-bytes", header_extra={100: b"\1"})
shard("footer-reserved-bytes", footer_extra={200: b"\1"})
shard("metadata-id", metadata_id=bytes(range(16)))
shard("huge-sample-count", count=0xFFFFFFFF)
shard("sample-count-overflows", count=(1 << 58) + 6)
shard("samples-end-in-the-header", samples_end=100)
shard("samples-end-beyond", samples_end=BIG)
shard("payload-bytes", payload_bytes=BIG)
shard("section-overlaps", footer_extra={64 + 24: u64(4096)})
shard("section-overflows", footer_extra={64 + 8: u64((1 << 64) - 64)})
shard("section-checksum", footer_extra={64 + 24 + 16: u64(1)})
shard("seek-table-of-a-raw-shard", footer_extra={48: u64(33)})
shard("seek-table-too-long", golden="zstd-shuffle", seek_rows=0xFFFFFFFF)
shard("seek-table-count", golden="zstd-shuffle", seek_rows=1)
shard("seek-table-flags", golden="zstd-shuffle", seek_flags=1)
shard("tail-size", golden="zstd-shuffle", tail_more=64)
shard("keys-gone", keys=b"")
shard("labels-gone", labels=b"")
record("item", 0, 1 << 41)
record("item-twice", 0, 0)
record("offset", 1, BIG)
record("offset-at-the-end", 1, 4800)
record("offset-of-another", 1, 4096)
record("height", 6, 0xFFFFFFFF)
record("key-offset", 5, BIG)
record("reserved-bytes", 10, 1)
record("offset-in-another-frame", 1, BIG - BIG % 64, "zstd-shuffle")
frame("offset", 0, BIG)
frame("offset-in-the-header", 0, 0)
frame("compressed-bytes", 1, BIG)
frame("no-compressed-bytes", 1, 0)
frame("payload-offset", 2, BIG)
frame("payload-bytes", 3, 1 << 35)
frame("payload-bytes-huge", 3, BIG)
frame("payload-too-short", 3, 1000)
frame("filtered-bytes", 4, BIG)
frame("checksum", 5, 1)
frame("first-slot", 6, 0xFFFFFFFF)
frame("first-slot-too-far", 6, 1)
frame("no-slots", 7, 0)
frame("slots-huge", 7, 0xFFFFFFFF)
frame("one-slot-fewer", 7, 5)
frame("filter", 8, 4)
frame("filter-table-without-tables", 8, 2)
frame("filter-of-another-size", 8, 1, "zstd-table")
frame("reserved-bytes", 9, 1)


def new_frame(name, make, filtered=None, golden="zstd-shuffle"):
    """The only frame's compressed bytes become make(content), with the right checksum."""
    def change(s):
        old = s.shards[0]
        content = zstandard.ZstdDecompressor().decompress(old.body)
        old.body = make(content)
        old.frames[0][1], old.frames[0][5] = len(old.body), xxh(old.body)
        if filtered:
            old.frames[0][4] = filtered
    changed("frame-" + name, change, golden)


def compress(content, **parameters):
    return zstandard.ZstdCompressor(**parameters).compress(content)


new_frame("is-noise", lambda c: bytes(i * 37 & 255 for i in range(300)))
new_frame("is-cut", lambda c: compress(c)[:-5])
new_frame("is-skippable", lambda c: struct.pack("<II", 0x184D2A51, 20) + bytes(20))
new_frame("and-a-skippable-one", lambda c: compress(c) + struct.pack("<II", 0x184D2A51, 20) + bytes(20))
new_frame("is-shorter", lambda c: compress(c[:-1]))
new_frame("is-longer", lambda c: compress(c + b"\0"))
new_frame("twice", lambda c: compress(c) + compress(c))
new_frame("in-two", lambda c: compress(c[:100]) + compress(c[100:]))
new_frame("without-size", lambda c: compress(c, write_content_size=False))
# 64 MiB of zeros in 2 KiB, and a frame that says 4 GiB and holds nothing: stated by the frame table too, or
# not.
BOMB = 64 << 20
new_frame("bomb", lambda c: compress(bytes(BOMB), level=19))
new_frame("bomb-in-the-table", lambda c: compress(bytes(BOMB), level=19), BOMB)
new_frame("says-4-gib", lambda c: bytes.fromhex("28b52ffd a0 ffffffff 010000".replace(" ", "")),
          0xFFFFFFFF)


# Metadata, in shards and index alike.
def metadata(name, old, new, golden="f16-chw"):
    changed("metadata-" + name, lambda s: s.replace(old, new), golden)


metadata("required-feature", b"optional made-up", b"required time-travel")
metadata("version-1", b"ffpack-metadata 0", b"ffpack-metadata 1")
metadata("not-text", b"ffpack-metadata 0", b"\0\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")
metadata("no-newline-at-the-end", b"\nprovenance source", b"\nprovenance\0source")
metadata("unknown-word", b"split ", b"splat ")
metadata("no-split", b"split \n", b"")
metadata("second-sample-line", b"shards ", b"sample dtype=f16 layout=chw channels=4096 height=3 "
         b"width=4 variable=0 alignment=64\nshards ")
metadata("channels-beyond-the-limit", b"channels=3", b"channels=4097")
metadata("no-channels", b"channels=3", b"channels=0")
metadata("more-channels", b"channels=3", b"channels=4")
metadata("sample-of-2-to-the-53", b"channels=3 height=3 width=4",
         b"channels=4096 height=1048576 width=1048576")
metadata("alignment", b"alignment=64", b"alignment=65")
metadata("huge-number", b"items=6", b"items=99999999999999999999999999")
metadata("items-2-to-the-40", b"items=6", b"items=1099511627776")
metadata("fewer-items", b"items=6", b"items=5")
metadata("million-shards", b"items=6", b"items=1099511627776")
metadata("zero-per-shard", b"per_shard=", b"per_shard=0 x=")
metadata("classes-announced", b"classes=6", b"classes=16777216")
metadata("classes-beyond-the-limit", b"classes=6", b"classes=16777217")
metadata("class-name-with-zero", b"class disk", b"class di%00k")
metadata("wide-field-not-required", b"width=1 classes=6", b"width=5 classes=6")
metadata("std-0", b"std 3e800000", b"std 00000000")
metadata("mean-nan", b"mean 3e800000", b"mean 7fc00000")
metadata("table-cut", b"table ", b"table 0", "zstd-table")
metadata("no-table", b"filter=shuffle", b"filter=table", "zstd-shuffle")
metadata("filter-without-zstd", b"required zstd\n", b"", "zstd-shuffle")
metadata("level", b"level=3", b"level=23", "zstd-shuffle")
metadata("not-canonical", b"level=3", b"level=03", "zstd-shuffle")


@case
def metadata_of_index_and_shard_differ():
    made = Set("f16-chw")
    made.text = made.text.replace(b"optional made-up", b"optional made-uq")
    return made.files()


@case
def class_out_of_range():
    made = Set("f16-chw")
    made.shards[0].labels = u32(99) + made.shards[0].labels[4:]
    return made.files()


@case
def padding_of_a_slot():
    made = Set("f16-chw")
    body = bytearray(made.shards[0].body)
    body[127] = 1
    made.shards[0].body = bytes(body)
    return made.files()


@case
def gap_between_slots():
    made = Set("f16-chw")
    s = made.shards[0]
    s.body = s.body[:128] + bytes(64) + s.body[128:]
    for r in s.records[1:]:
        r[1] += 64
    return made.files()


# Generations, and versions that do not fit. The set has 7 items in generation 0, 1 in 1, 5 in 2.
GROWN = "v1/generations"


def generation(name, change):
    changed("generation-" + name, change, GROWN)


def older_differs(made):
    """Generation 0 has another transform; the newer ones name its actual text."""
    old = made.shards[0].text
    new = old.replace(b"to_tensor", b"to_tenser")
    for shard in made.shards:
        if shard.generation == 0:
            shard.text = new
    for generation in (1, 2):
        texts = {shard.text for shard in made.shards if shard.generation == generation}
        text = texts.pop().replace(xxh128(old).hex().encode(), xxh128(new).hex().encode())
        if generation == 2:
            before = {shard.text for shard in made.shards if shard.generation == 1}.pop()
            text = text.replace(made.names_of_1, xxh128(before).hex().encode())
        else:
            made.names_of_1 = xxh128({s.text for s in made.shards if s.generation == 1}.pop()).hex().encode()
        for shard in made.shards:
            if shard.generation == generation:
                shard.text = text
    made.text = made.shards[-1].text
    return made


def first_of(made, generation):
    return next(shard for shard in made.shards if shard.generation == generation)


generation("of-the-index", lambda s: setattr(s, "generation", 1))
generation("of-a-row", lambda s: s.row_extra.update({(0, 6): 1}))
generation("of-a-shard", lambda s: setattr(first_of(s, 0), "generation", 1))
generation("line-id", lambda s: s.newest(b"id=", b"id=0" if b"id=0" not in s.text else b"id=1"))
generation("line-id-of-another", lambda s: s.newest(b" id=" + xxh128(s.shards[0].text).hex().encode(),
                                                    b" id=" + bytes(16).hex().encode()))
generation("line-items", lambda s: s.newest(b"generation items=7", b"generation items=6"))
generation("line-shards", lambda s: s.newest(b"generation items=7 shards=", b"generation items=7 shards=1"))
generation("line-gone", lambda s: s.newest(s.text[s.text.index(b"generation items=8"):].split(b"\n")[0] + b"\n", b""))
generation("in-version-0", lambda s: s.newest(b"ffpack-metadata 1", b"ffpack-metadata 0"))
generation("older-differs", older_differs)
generation("item-of-another", lambda s: first_of(s, 2).records[0].__setitem__(0, 0))
generation("shard-of-another", lambda s: setattr(first_of(s, 1), "text", s.text))
changed("index-version-0", lambda s: setattr(s, "version", 0), "v1/plain")
changed("index-version-2", lambda s: setattr(s, "version", 2), "v1/plain")
changed("shard-version-0", lambda s: setattr(s.shards[0], "version", 0), "v1/plain")
changed("shard-version-2", lambda s: setattr(s.shards[0], "version", 2), "v1/plain")
changed("footer-version-0", lambda s: setattr(s.shards[0], "footer_version", 0), "v1/plain")
metadata("version-0", b"ffpack-metadata 1", b"ffpack-metadata 0", "v1/plain")
metadata("version-2", b"ffpack-metadata 1", b"ffpack-metadata 2", "v1/plain")


def build():
    return {name: make() for name, make in CASES.items()}


def main():
    for name in os.listdir(HERE):
        if os.path.isdir(os.path.join(HERE, name)):
            shutil.rmtree(os.path.join(HERE, name))
    for name, files in build().items():
        folder = os.path.join(HERE, name)
        os.makedirs(folder)
        for file_name, data in files.items():
            with open(os.path.join(folder, file_name), "wb") as file:
                file.write(data)


if __name__ == "__main__":
    sys.exit(main())
