"""A disk that loses what was not synced: replays a record of tests/shims/crash.c and yields every state that a
crash may leave.

A file's bytes are safe once it was fsynced; a name (create, rename, remove) once its folder was. What was
not synced may or may not survive: so a crash leaves the synced state, with any of the pending names applied
or not, and files that hold only their synced bytes (a size of 0 if there are none)."""
import struct


def read_trace(path):
    data = open(path, "rb").read()
    operations, at = [], 0
    while at + 17 <= len(data):
        op, a_bytes, b_bytes, offset = struct.unpack_from("<BIIQ", data, at)
        at += 17
        a = data[at:at + a_bytes].decode()
        b = data[at + a_bytes:at + a_bytes + b_bytes]
        at += a_bytes + b_bytes
        operations.append((chr(op), a, b, offset))
    return operations


class Node:
    def __init__(self, folder):
        self.folder = folder
        self.linked = False      # file: has two names
        self.names = {}          # folder: name -> Node, as the process sees it
        self.lasting = {}        # folder: as the disk has it
        self.bytes = bytearray()  # file
        self.synced = b""


class Disk:
    def __init__(self, root):
        self.root_path = root
        self.root = Node(True)
        self.pending = []  # [changes]: each a list of (folder, name, node or None), applied together
        self.touched = {}  # what must survive: path of a commit -> the operation that acted on it
        self.commits = []  # nodes renamed from a .tmp, not yet acted upon
        self.promised = []  # nodes that must exist after a crash

    def parts(self, path):
        assert path == self.root_path or path.startswith(self.root_path + "/"), path
        return [part for part in path[len(self.root_path):].split("/") if part]

    def find(self, path):
        node = self.root
        for part in self.parts(path):
            node = node.names[part]
        return node

    def place(self, path):
        parts = self.parts(path)
        node = self.root
        for part in parts[:-1]:
            node = node.names[part]
        return node, parts[-1]

    def change(self, *changes):
        for folder, name, node in changes:
            if node is None:
                folder.names.pop(name, None)
            else:
                folder.names[name] = node
        self.pending.append(list(changes))

    def apply(self, op, a, b, offset):
        # Whatever creates or writes another file acts on the commits before it.
        if op in "OWRXML" and not (op == "R"):
            self.promised += self.commits
            self.commits = []
        if op == "O":
            folder, name = self.place(a)
            if b == b"t":
                folder.names[name].bytes = bytearray()
            else:
                self.change((folder, name, Node(False)))
        elif op == "W":
            node = self.find(a)
            if len(node.bytes) < offset:
                node.bytes.extend(bytes(offset - len(node.bytes)))
            node.bytes[offset:offset + len(b)] = b
        elif op == "S":
            node = self.find(a)
            if node.folder:
                kept = []
                for changes in self.pending:
                    if any(folder is node for folder, _, _ in changes):
                        self.last(changes)
                    else:
                        kept.append(changes)
                self.pending = kept
            else:
                node.synced = bytes(node.bytes)
        elif op in "RX":
            from_folder, from_name = self.place(a)
            to_folder, to_name = self.place(b.decode())
            moved = from_folder.names[from_name]
            other = to_folder.names.get(to_name) if op == "X" else None
            if op == "R":
                self.promised += self.commits
                self.commits = []
            self.change((from_folder, from_name, other), (to_folder, to_name, moved))
            if op == "R" and not moved.folder:
                self.commits.append(moved)
        elif op == "L":
            folder, name = self.place(b.decode())
            node = self.find(a)
            node.linked = True
            self.change((folder, name, node))
        elif op in "UD":
            folder, name = self.place(a)
            gone = folder.names.get(name)
            self.promised = [node for node in self.promised if node is not gone]
            self.change((folder, name, None))
        elif op == "M":
            folder, name = self.place(a)
            self.change((folder, name, Node(True)))

    @staticmethod
    def last(changes):
        for folder, name, node in changes:
            if node is None:
                folder.lasting.pop(name, None)
            else:
                folder.lasting[name] = node

    def crash_states(self):
        """Every state as (description, tree, missing): tree maps path -> bytes or None for folders;
        missing counts promised files that are not there whole."""
        count = len(self.pending)
        choices = [("nothing unsynced", set()), ("all names", set(range(count)))]
        choices += [(f"only name change {i}", {i}) for i in range(count)]
        choices += [(f"all names but change {i}", set(range(count)) - {i}) for i in range(count)]
        for description, chosen in choices:
            saved = {}

            def snapshot(node):
                if id(node) not in saved:
                    saved[id(node)] = (node, dict(node.lasting))

            for i in sorted(chosen):
                for folder, _, _ in self.pending[i]:
                    snapshot(folder)
                self.last(self.pending[i])
            tree, seen = {}, set()

            def walk(node, path):
                for name, child in node.lasting.items():
                    if id(child) in seen and not child.linked:
                        continue
                    seen.add(id(child))
                    tree[path + name] = None if child.folder else child.synced
                    if child.folder:
                        walk(child, path + name + "/")

            walk(self.root, "")
            missing = sum(1 for node in self.promised
                          if id(node) not in seen or node.synced != bytes(node.bytes))
            for node, lasting in saved.values():
                node.lasting = lasting
            yield description, tree, missing
