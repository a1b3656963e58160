"""Phase steps: training steps against PyTorch's, then each operation against what it should take, then the loop
that most people run: the most worth first, since the phase may be cut off."""
import os
import sys

from halfhour import data, tune


def run(s, sizes):
    serve = s.program("serve_steps")
    if not serve:
        s.fail("serve_steps is not here")
        return
    before = s.measured
    for recipe in sizes["recipes"]:
        recipe_steps(s, serve, recipe, sizes)
    seconds = s.left() - (sizes["usual_seconds"] + sizes["ops_seconds"]) * s.options.scale
    command = [sys.executable, os.path.join(s.options.bench, "steps.py"), "--ours", " ".join([serve, *sizes["serve"]]), "--device", "cuda", "--out", s.results_path,
               "--tag", s.tag(), "--seconds", f"{max(seconds, 1):.1f}", "--patience", max(150 * s.options.scale, 20), *sizes["steps"]]
    result = s.run("steps against PyTorch", command, 480, show=True)
    s.measured = before + any(line.startswith("|") and " ms (" in line for line in result.lines)
    for line in result.lines:
        s.row(line)
    tune.operations(s, sizes, sizes["ops"])
    usual(s, sizes)


def recipe_steps(s, serve, words, sizes):
    """A recipe's steps alone: what cifar-speed's net takes a step."""
    import servers
    try:
        server = servers.Server(" ".join(words), [serve, *words, *sizes["serve"]], min(60 * s.options.scale, s.left()), s.environment)
        times = [server.steps(sizes["recipe_steps"], min(60 * s.options.scale, s.left())) for _ in range(5)]
        server.close()
    except servers.Failed as error:
        if s.left() < 0.5:
            s.row(f"cut off: {' '.join(words)}")
        else:
            s.fail(str(error))
        return
    s.log({"recipe": words, "ours_ms": times})
    s.row(f"{' '.join(words)}: {sorted(times)[2]:.3f} ms a step")


def usual(s, sizes):
    if s.left() < sizes["usual_least"] * s.options.scale:
        s.skip("the usual loop: no time left")
        return
    folder = data.jpegs(s)
    if not folder:
        return
    result = s.run("the usual loop, VGG-16", [sys.executable, os.path.join(s.options.bench, "usual_loop.py"), "--folder", folder, *sizes["usual"]],
                   sizes["usual_seconds"], ours=False)
    for line in result.json_lines():
        s.log({"usual_loop": line})
        s.row(f"usual loop: {line}")
