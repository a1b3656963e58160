"""Reads TensorBoard's event files in plain Python: framing, checksums and the messages' fields."""
import glob
import os
import struct

TABLE = []
for number in range(256):
    for _ in range(8):
        number = number >> 1 ^ (0x82f63b78 if number & 1 else 0)
    TABLE.append(number)


def masked(data):
    crc = 0xffffffff
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(data):
    at = 0
    while at < len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        assert crc == masked(data[at:at + 8]), "the length's checksum at %d" % at
        message = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(message), "checksum at %d" % at
        yield message
        at += 16 + length


def fields(data):
    """{field: value} of a message; nested ones as bytes."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint() if key & 7 != 2 else varint()
            value = data[at:at + size]
            assert len(value) == size
            at += size
        assert key >> 3 not in found, "field %d twice" % (key >> 3)
        found[key >> 3] = value
    return found


def events(folder, files=1):
    """[(tag, step, value)] of the folder's files, as many as are said, in their order; a value is a float or (height, width, PNG)."""
    all_messages = []
    for path in glob.glob(os.path.join(folder, "events.out.tfevents.*")):
        with open(path, "rb") as file:
            messages = [fields(message) for message in records(file.read())]
        assert messages[0][3] == b"brain.Event:2" and all(5 in message for message in messages[1:])
        times = [struct.unpack("<d", message[1])[0] for message in messages]
        assert all(1.6e9 < at < 1e11 for at in times)
        all_messages.append((times[0], messages[1:]))
    assert len(all_messages) == files, "%d files" % len(all_messages)
    found = []
    for message in [message for _, messages in sorted(all_messages, key=lambda one: one[0]) for message in messages]:
        value = fields(fields(message[5])[1])
        if 4 in value:
            image = fields(value[4])
            assert image[3] == 3
            found.append((value[1].decode(), message[2], (image[1], image[2], image[4])))
        else:
            found.append((value[1].decode(), message[2], struct.unpack("<f", value[2])[0]))
    return found
