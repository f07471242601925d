"""An ICC profile (ICC.1:2001-04) of colours wider than sRGB: DCI-P3's primaries, white D65, gamma 2.2."""
import struct


def wide_profile():
    def fixed(value):
        return struct.pack(">i", round(value * 65536))

    def xyz(*values):
        return b"XYZ \0\0\0\0" + b"".join(fixed(value) for value in values)

    text = b"Wide\0"
    tags = {
        b"desc": b"desc\0\0\0\0" + struct.pack(">I", len(text)) + text + bytes(78),
        b"cprt": b"text\0\0\0\0" + b"CC0\0",
        b"wtpt": xyz(0.9642, 1, 0.8249),
        b"rXYZ": xyz(0.5151, 0.2412, -0.0011),
        b"gXYZ": xyz(0.2920, 0.6922, 0.0419),
        b"bXYZ": xyz(0.1571, 0.0666, 0.7841),
        b"rTRC": b"curv\0\0\0\0" + struct.pack(">IHH", 1, round(2.2 * 256), 0),
    }
    tags[b"gTRC"] = tags[b"bTRC"] = tags[b"rTRC"]
    table, body, offset = b"", b"", 128 + 4 + 12 * len(tags)
    for name, data in tags.items():
        data += bytes(-len(data) % 4)
        table += name + struct.pack(">II", offset + len(body), len(data))
        body += data
    header = struct.pack(">I4sI4s4s4s", offset + len(body), b"lcms", 0x02100000, b"mntr", b"RGB ", b"XYZ ")
    header += struct.pack(">6H4s", 2026, 1, 1, 0, 0, 0, b"acsp") + bytes(28) + fixed(0.9642) + fixed(1) + fixed(0.8249)
    return header.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body
