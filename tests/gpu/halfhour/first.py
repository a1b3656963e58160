"""Phase first: in a minute, whether everything opens, and one step of each key net beside the CPU's. Its last line is the verdict."""
import concurrent.futures

from halfhour import probe

CPU = ["--device", "cpu", "--placement", "auto", "--precision", "f32"]


def nets(s, sizes):
    """The largest distance of a loss from the CPU's, by precision. All processes run at once."""
    apart = {}
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        def ask(name, arguments):
            return pool.submit(probe.check, s, name, [*arguments, "--deterministic"], 1)

        asked = [(name, ask(f"{name} on the CPU", [*arguments, *CPU]),
                  {precision: ask(f"{name} in {precision}", [*arguments, "--precision", precision]) for precision in probe.CPU_APART})
                 for name, arguments in sizes["first_nets"]]
        for name, cpu, cards in asked:
            for precision, card in cards.items():
                if cpu.result() and card.result():
                    found = probe.compare(s, name, precision, cpu.result(), card.result())
                    apart[precision] = max(apart.get(precision, 0), found)
    return apart


def collectives(s):
    """NCCL, with one rank."""
    path = s.program("test_cuda_nccl")
    if not path:
        s.skip("NCCL: test_cuda_nccl is not here")
        return
    result = s.run("NCCL", [path], 30)
    if result.good:
        s.row(f"NCCL: {next((line[2:] for line in result.lines if 'SKIP' in line), 'one rank')}")


def run(s, sizes):
    apart = {}
    try:
        if not probe.device(s):
            return
        probe.libraries(s, sizes)
        apart = nets(s, sizes)
        collectives(s)
    finally:
        complete = len(apart) == len(probe.CPU_APART) and not any(line.startswith("cut off") for line in s.table)
        s.verdict = f"FAILED: {s.failures[0]} ({len(s.failures)} in all)" if s.failures else \
            f"all opens; from the CPU's losses at most {', '.join(f'{most:.1e} in {precision}' for precision, most in apart.items())}" if complete else \
            "not known: there was no card, or no time"
