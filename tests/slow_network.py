"""Ranks on slow networks: each in a network namespace of its own, joined by a bridge, with links of a given rate (tbf), and messages
that arrive later by a given time (tests/programs/fftrain_delay.c). Needs root, ip and tc."""
import os
import shutil
import subprocess

PROGRAM = os.path.join(os.path.abspath(os.environ.get("BUILD", "build")), "tests", "fftrain_delay")


def missing():
    """What is not there; None where networks can be made."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        return "needs root, ip and tc"
    tried = subprocess.run(["unshare", "-n", "sh", "-c", "ip link add dev b type bridge && tc qdisc add dev b root tbf rate 1mbit burst 9kb latency 1s"],
                           capture_output=True, text=True, check=False)
    return tried.stderr.strip().splitlines()[-1] if tried.returncode else None


class Network:
    """Namespaces fb0, fb1... with 10.77.0.1, 10.77.0.2..."""

    def __init__(self, ranks, mbit):
        self.names = ["fb%d-%d" % (os.getpid() % 10000, rank) for rank in range(ranks)]
        self.bridge = "fb%d" % (os.getpid() % 10000)
        ip("link", "add", self.bridge, "type", "bridge")
        ip("link", "set", self.bridge, "up")
        for rank, name in enumerate(self.names):
            ip("netns", "add", name)
            ip("link", "add", "dev", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", name, "master", self.bridge, "up")
            ip("-n", name, "addr", "add", "10.77.0.%d/24" % (rank + 1), "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
            if mbit:
                ip("netns", "exec", name, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "%dmbit" % mbit, "burst", "256kb",
                   "latency", "100ms")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "link", "del", name], stderr=subprocess.DEVNULL, check=False)
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["ip", "link", "del", self.bridge], stderr=subprocess.DEVNULL, check=False)

    def job(self, delay_us, *arguments, port=[29800]):
        """Runs fftrain on all ranks."""
        port[0] += 1
        ranks = []
        for rank, name in enumerate(self.names):
            environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(len(self.names)), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1",
                               MASTER_ADDR="10.77.0.1", MASTER_PORT=str(port[0]), OMP_WAIT_POLICY="passive",
                               FFTRAIN_DELAY_US=str(delay_us))
            ranks.append(subprocess.Popen(["ip", "netns", "exec", name, PROGRAM,
                                           *map(str, arguments)], env=environment, stdout=subprocess.DEVNULL,
                                          stderr=subprocess.PIPE, text=True))
        told = [rank.communicate(timeout=600)[1] for rank in ranks]
        if any(rank.returncode for rank in ranks):
            raise RuntimeError(" ".join(told))


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Link:
    """Namespaces names[0] with 10.78.0.1 and names[1] with 10.78.0.2, joined by a line that delays, loses, repeats and overtakes packets
    (tests/programs/slow_link.c); names[0] sends at a rate of at most mbit (tbf). Needs /dev/net/tun."""
    ADDRESS = "10.78.0.1"

    def __init__(self):
        self.names = ["fl%d-%d" % (os.getpid() % 10000, side) for side in range(2)]
        for name in self.names:
            ip("netns", "add", name)
        self.line = subprocess.Popen([os.path.join(os.path.dirname(PROGRAM), "slow_link"), *self.names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.line.stdout.readline() != "ready\n":
            raise RuntimeError("slow_link does not start")
        for side, name in enumerate(self.names):
            ip("-n", name, "addr", "add", "10.78.0.%d/24" % (side + 1), "dev", "tun0")
            ip("-n", name, "link", "set", "lo", "up")
            self.up(side)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.line.stdin.close()
        self.line.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)

    def set(self, mbit=0, delay_ms=0.0, lost=0.0, repeated=0.0, overtaking=0.0):
        """The delay is that of each direction; the last three are shares of the packets."""
        self.line.stdin.write("%d %d %d %d\n" % (delay_ms * 1000, lost * 10000, repeated * 10000, overtaking * 10000))
        self.line.stdin.flush()
        subprocess.run(["ip", "netns", "exec", self.names[0], "tc", "qdisc", "del", "dev", "tun0", "root"], stderr=subprocess.DEVNULL, check=False)
        if mbit:
            ip("netns", "exec", self.names[0], "tc", "qdisc", "add", "dev", "tun0", "root", "tbf", "rate", "%dmbit" % mbit, "burst", "256kb", "latency", "100ms")

    def up(self, side):
        ip("-n", self.names[side], "link", "set", "tun0", "up")

    def down(self, side):
        ip("-n", self.names[side], "link", "set", "tun0", "down")

    def inside(self, side, *command):
        return ["ip", "netns", "exec", self.names[side], *map(str, command)]
