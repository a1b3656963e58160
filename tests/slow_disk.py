#!/usr/bin/python3
"""A disk with one arm: a file system (FUSE) that shows a folder's files, read-only, and serves one read at a time. A read that does not
begin where the last one ended takes SEEK ms, and each byte its time, whatever else the machine does. Where FILE has a line "NAME OFFSET",
reads of what holds this byte of a file fail (EIO). Needs root and /dev/fuse; speaks the kernel's protocol (linux/fuse.h, 7.31) itself.

As a program, `slow_disk.py SOURCE MOUNT SEEK MB_S [FILE]`, it prints "ready", serves until it is ended with SIGTERM, and prints the number
of reads, of seeks, and of bytes."""
import ctypes
import errno
import os
import select
import signal
import struct
import subprocess
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
READ_ONLY, DETACH = 1, 2
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS, INTERRUPT, DESTROY, BATCH_FORGET = \
    1, 2, 3, 14, 15, 17, 18, 25, 26, 27, 28, 29, 34, 36, 38, 42
ASYNC_READ, MAX_PAGES = 1 << 0, 1 << 22
PAGES = 256
ROOT = 1


class Disk:
    """The file system's answers. Node 1 is the folder, node 2 + i file i of it."""

    def __init__(self, source, seek, rate, fails):
        self.source, self.seek, self.rate, self.fails = source, seek, rate, fails
        self.names = sorted(os.listdir(source))
        self.files = [os.open(os.path.join(source, name), os.O_RDONLY) for name in self.names]
        self.arm, self.free = (None, 0), 0.0 # where it is, and since when
        self.reads = self.seeks = self.bytes = 0

    def attributes(self, node):
        info = os.stat(self.source) if node == ROOT else os.fstat(self.files[node - 2])
        return struct.pack("<QQQQQQIIIIIIIIII", node, info.st_size, info.st_size // 512, 0, 0, 0, 0, 0, 0, info.st_mode, 1, 0, 0, 0, 4096, 0)

    def fails_at(self, name, offset, size):
        if not self.fails or not os.path.exists(self.fails):
            return False
        with open(self.fails, encoding="ascii") as file:
            lines = [line.split() for line in file if line.endswith("\n")]
        return any(other == name and offset <= int(at) < offset + size for other, at in lines)

    def read(self, node, offset, size):
        if self.fails_at(self.names[node - 2], offset, size):
            return -errno.EIO, b""
        found = os.pread(self.files[node - 2], size, offset)
        seeks = self.arm != (node, offset)
        self.arm = (node, offset + len(found))
        self.reads += 1
        self.seeks += seeks
        self.bytes += len(found)
        # By the clock: the time that this process computes, or waits for a processor, is part of the read, and later reads make up
        # for it.
        self.free += self.seek * seeks + len(found) / self.rate
        time.sleep(max(0, self.free - time.monotonic()))
        return 0, found

    def answer(self, code, node, body):
        """(error, bytes)"""
        if code == INIT:
            major, minor, ahead, flags = struct.unpack_from("<IIII", body)
            assert major == 7 and flags & MAX_PAGES
            return 0, struct.pack("<IIIIHHIIHHI28x", 7, min(minor, 31), ahead, ASYNC_READ | MAX_PAGES, 64, 48, 1 << 20, 1, PAGES, 0, 0)
        if code == LOOKUP:
            name = os.fsdecode(body.rstrip(b"\0"))
            if name not in self.names:
                return -errno.ENOENT, b""
            found = 2 + self.names.index(name)
            return 0, struct.pack("<QQQQII", found, 0, 3600, 3600, 0, 0) + self.attributes(found)
        if code == GETATTR:
            return 0, struct.pack("<QII", 3600, 0, 0) + self.attributes(node)
        if code in (OPEN, OPENDIR):
            return 0, struct.pack("<QII", 0, 0, 0)
        if code == READ:
            return self.read(node, *struct.unpack_from("<QI", body, 8))
        if code == READDIR:
            _, offset, _ = struct.unpack_from("<QQI", body)
            entries = b""
            for i, name in enumerate(self.names[offset:offset + 16], offset): # of so many, some fit into 4 KiB
                raw = os.fsencode(name)
                entry = struct.pack("<QQII", 2 + i, i + 1, len(raw), 8) + raw
                entries += entry + b"\0" * (-len(entry) % 8)
            return 0, entries
        if code == STATFS:
            return 0, struct.pack("<QQQQQIIII24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0)
        if code in (RELEASE, RELEASEDIR, FLUSH, ACCESS, DESTROY):
            return 0, b""
        return -errno.ENOSYS, b""


def serve(device, disk):
    woken, wakes = os.pipe() # by a signal, also by one that arrives just before the wait
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    print("ready", flush=True)
    while True:
        idle = not select.select([device], [], [], 0)[0]
        select.select([device, woken], [], [])
        try:
            message = os.read(device, (PAGES + 1) * 4096)
        except OSError as error:
            if error.errno in (errno.EINTR, errno.ENOENT):
                continue
            if error.errno == errno.ENODEV: # unmounted
                return
            raise
        if idle:
            disk.free = time.monotonic()
        length, code, unique, node = struct.unpack_from("<IIQQ", message)
        if code in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        failed, found = disk.answer(code, node, message[40:length])
        os.write(device, struct.pack("<IiQ", 16 + len(found), failed, unique) + found)


class Ended(Exception):
    """By SIGTERM."""


def end(*_):
    raise Ended


def mount(source, folder, seek_ms, mb_s, fails=None):
    """Serves until SIGTERM."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,max_read=%d" % (device, PAGES * 4096)
    if LIBC.mount(b"slow_disk", os.fsencode(folder), b"fuse", READ_ONLY, options.encode()):
        raise OSError(ctypes.get_errno(), "cannot mount", folder)
    disk = Disk(source, seek_ms / 1e3, mb_s * 1e6, fails)
    try:
        signal.signal(signal.SIGTERM, end)
        serve(device, disk)
    except Ended: # files that are still in use fail from now on
        pass
    finally:
        LIBC.umount2(os.fsencode(folder), DETACH)
    print(disk.reads, disk.seeks, disk.bytes)


def possible():
    """Why there can be no such file system here, or an empty text."""
    if os.geteuid():
        return "mounting needs root"
    if not os.path.exists("/dev/fuse"):
        return "there is no /dev/fuse"
    folder = subprocess.run(["mktemp", "-d"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    try:
        with Mounted(folder, folder + ".mount", 0, 1e6):
            return ""
    except (OSError, RuntimeError) as error:
        return str(error)
    finally:
        os.rmdir(folder)


class Mounted:
    """With it, `folder` shows the files of `source`; afterwards `counted` has reads, seeks and bytes."""

    def __init__(self, source, folder, seek_ms, mb_s, fails=""):
        self.folder = folder
        self.command = [sys.executable, os.path.abspath(__file__), source, folder, str(seek_ms), str(mb_s), fails]

    def __enter__(self):
        os.mkdir(self.folder)
        self.server = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.server.stdout.readline() != "ready\n":
            os.rmdir(self.folder)
            raise RuntimeError(self.server.communicate()[1].strip().rsplit("\n", 1)[-1])
        return self

    def __exit__(self, *_):
        self.server.terminate()
        said = self.server.communicate()[0].split()
        self.counted = [int(number) for number in said]
        os.rmdir(self.folder)


if __name__ == "__main__":
    mount(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), sys.argv[5] if len(sys.argv) > 5 else None)
