#!/usr/bin/python3
"""tools/launch's files for Kubernetes and torchrun: what the YAML says, its commands run with the variables that
Kubernetes sets, and two agents of torchrun on this machine, also with a rank that fails. Prints TAP."""
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from jobs import has_torchrun  # noqa: E402

LAUNCH = os.path.join(tap.ROOT, "tools", "launch")
INDEX = "batch.kubernetes.io/job-completion-index"
TRAIN = "--batch 64 --threads 1 --device cpu"
folder = tempfile.mkdtemp(prefix="ffpack-launch-")
programs = os.path.join(folder, "bin")
clean = {name: value for name, value in os.environ.items()
         if not re.match("SLURM|OMPI|PMI|RANK|WORLD_SIZE|LOCAL_|MASTER_|TORCHELASTIC|FFPACK_PARTS", name)}
clean["USE_LIBUV"] = "0"  # as in tests/jobs.py
clean["PATH"] = programs + ":" + clean["PATH"]
distributed = b"--ranks" in tap.run([os.path.join(tap.BUILD, "fftrain"), "--help"]).stdout


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def finish(processes, seconds=300):
    """Their outputs, after all have ended with 0; else the failure."""
    try:
        said = [(each.communicate(timeout=seconds)[0].decode(errors="replace"), each.returncode) for each in processes]
    finally:
        for each in processes:
            if each.poll() is None:
                each.kill()
    return [text for text, _ in said], next((text + "\nexit %d" % code for text, code in said if code), "")


def start(command, **variables):
    return subprocess.Popen(command, cwd=folder, env={**clean, **variables}, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


# ---- Kubernetes ----

def jobs_of(name):
    """The file's documents by kind and name; a key twice is refused, as kubectl does."""
    import yaml

    class Strict(yaml.SafeLoader):
        def construct_mapping(self, node, deep=False):
            keys = [self.construct_object(key) for key, _ in node.value]
            assert len(keys) == len(set(keys)), "a key twice at %s" % node.start_mark
            return super().construct_mapping(node, deep)

    with open(os.path.join(LAUNCH, name)) as file:
        return {(each["kind"], each["metadata"]["name"]): each for each in yaml.load_all(file, Strict)}


def container_of(job):
    (only,) = job["spec"]["template"]["spec"]["containers"]
    return only


def faults_of(job, kind="Job"):
    """What Kubernetes would refuse, or ignore."""
    found = []
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    container = container_of(job)
    known = {"": {"apiVersion", "kind", "metadata", "spec"},
             "spec": {"completionMode", "completions", "parallelism", "backoffLimit", "podFailurePolicy", "template"},
             "pod": {"restartPolicy", "subdomain", "terminationGracePeriodSeconds", "containers", "volumes"},
             "container": {"name", "image", "command", "env", "resources", "volumeMounts"}}
    for where, given in (("", job), ("spec", spec), ("pod", pod), ("container", container)):
        found += ["unknown: %s" % key for key in set(given) - known[where]]
    if (job["apiVersion"], job["kind"]) != ("batch/v1", kind):
        found.append("it is not a Job of batch/v1")
    if pod["restartPolicy"] not in ("Never", "OnFailure"):
        found.append("a Job's restartPolicy is Never or OnFailure")
    if "podFailurePolicy" in spec and pod["restartPolicy"] != "Never":
        found.append("podFailurePolicy needs restartPolicy Never")
    if not all(isinstance(word, str) for word in container["command"]):
        found.append("a word of the command is not a string")
    for each in container.get("env", []):
        if not isinstance(each.get("value", ""), str):
            found.append("%s is not a string" % each["name"])
    volumes = {each["name"] for each in pod["volumes"]}
    found += ["no volume %s" % each["name"] for each in container["volumeMounts"] if each["name"] not in volumes]
    return found


def pod(job, index, words=(), **replaced):
    """Starts the container's command as pod number `index`, in `folder` as the volume /data."""
    container = container_of(job)
    variables = {"JOB_COMPLETION_INDEX": str(index)} if job["spec"].get("completionMode") == "Indexed" else {}
    for each in container.get("env", []):
        if "value" in each:
            variables[each["name"]] = each["value"]
        else:
            assert each["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.annotations['%s']" % INDEX}}, each
            variables[each["name"]] = str(index)
    variables.update(replaced)
    command = [word.replace("/data/", folder + "/") for word in container["command"]] + list(words)
    return start(command, **variables)


def kubernetes_packs():
    documents = jobs_of("kubernetes-pack.yaml")
    pack, merge = documents[("Job", "ffpack")], documents[("Job", "ffpack-merge")]
    for name, job in (("packing", pack), ("merging", merge)):
        faults = faults_of(job)
        tap.ok(not faults, "kubernetes-pack.yaml: the job of %s" % name, faults)
    count = pack["spec"]["completions"]
    tap.ok(pack["spec"]["completionMode"] == "Indexed" and pack["spec"]["parallelism"] <= count
           and {"name": "FFPACK_PARTS", "value": str(count)} in container_of(pack)["env"],
           "FFPACK_PARTS is the number of completions")
    subprocess.run([sys.executable, os.path.join(tap.ROOT, "tests", "cli", "make_inputs.py"), "folder",
                    os.path.join(folder, "photos"), "8"], check=True)
    small = ("--jobs", "1", "--shard-size", "1M")
    waiting = pod(merge, 0)
    # Pods come in any order; two at a time are enough here.
    failures = [finish([pod(pack, index, small) for index in some])[1] for some in ((5, 2), (0, 7), (1, 3), (6, 4))]
    tap.ok(not any(failures), "the command of each pod packs its part", "\n".join(failures))
    said, failure = finish([waiting])
    tap.ok(not failure, "the command of merging waits for them", failure)
    options = container_of(pack)["command"]
    options = [each for each in options[4:] if each not in ("--part", "auto")]
    alone = tap.run([os.path.join(programs, "ffpack"), os.path.join(folder, "photos"), "-o", os.path.join(folder, "alone"),
                     *options, *small])
    same = alone.returncode == 0 and tap.files_of(os.path.join(folder, "alone")) == tap.files_of(os.path.join(folder, "packed"))
    tap.ok(same, "the bytes of one run", alone.stderr.decode())
    again = finish([pod(pack, 3, small)])
    tap.ok("is whole already" in again[0][0] and not again[1], "a pod that comes again keeps its part", again)


def make_set():
    subprocess.run([tap.program("make_set"), os.path.join(folder, "set"), "--splits", "train,test", "--count", "512",
                    "--height", "8", "--width", "8", "--statistics"], check=True, stdout=subprocess.DEVNULL)


def kubernetes_trains():
    documents = jobs_of("kubernetes-train.yaml")
    job, service = documents[("Job", "fftrain")], documents[("Service", "fftrain")]
    faults = faults_of(job)
    tap.ok(not faults, "kubernetes-train.yaml: the job", faults)
    count, template = job["spec"]["completions"], job["spec"]["template"]["spec"]
    values = {each["name"]: each.get("value") for each in container_of(job)["env"]}
    tap.ok(values["WORLD_SIZE"] == str(count) and job["spec"]["parallelism"] == count,
           "WORLD_SIZE is the number of completions, and all pods run at once")
    tap.ok(service["spec"]["clusterIP"] == "None" and service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
           and values["MASTER_ADDR"] == "%s-0.%s" % (job["metadata"]["name"], template["subdomain"])
           and template["subdomain"] == service["metadata"]["name"], "the service gives rank 0 its name")
    tap.ok(job["spec"]["podFailurePolicy"]["rules"] == [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [75]}}],
           "75 is not a failure")
    ranks = 2 if distributed else 1
    shutil.copytree(os.path.join(folder, "set"), os.path.join(folder, "packed"), dirs_exist_ok=True)
    port = str(free_port())

    def run(evict=False):
        """The script with the small net of the test in place of resnet50."""
        container = container_of(job)
        script = container["command"][2]
        pods = []
        for rank in range(ranks):
            container["command"][2] = script.replace("--model resnet50 --epochs 90", "--model smallnet --epochs 100 " + TRAIN)
            pods.append(pod(job, rank, WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=port))
        container["command"][2] = script
        while evict and pods[0].poll() is None:
            if os.path.exists(log) and '"event":"epoch"' in open(log).read():
                pods[-1].terminate()
                break
        said, failure = finish(pods)
        return said, [each.returncode for each in pods], failure

    log = os.path.join(folder, "runs", "resnet50", "log.jsonl")
    said, codes, failure = run(evict=True)
    tap.ok(codes == [75] * ranks, "its command trains (%d of %d pods), and ends with 75 where one is evicted" % (ranks, count),
           failure or said)
    said, codes, failure = run()
    tap.ok(not failure and "resumes from" in said[0] and "after epoch 100" in said[0], "started again, it continues to the end",
           failure or said)


# ---- torchrun ----

def agents(run, *words, ranks=1, **variables):
    port = str(free_port())
    return finish([start(["sh", os.path.join(LAUNCH, "torchrun-two-machines.sh"), "127.0.0.1", run, *words],
                         GPUS=str(ranks), PORT=port, **variables) for _ in range(2)])


def torchrun_starts():
    if not has_torchrun():
        tap.skip("torchrun", "the Python module torch is not installed, or its torchrun starts nothing")
        return
    # In place of fftrain: says its numbers and words; the ranks of the first round fail when all have
    # begun, as those of a job that lost one do.
    stand_in = os.path.join(folder, "stand-in")
    os.mkdir(stand_in)
    with open(os.path.join(stand_in, "fftrain"), "w") as file:
        file.write('''#!/bin/sh
echo "$RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE at ${MASTER_ADDR:+address} ${MASTER_PORT:+port}: $*" >>"$SAID"
if [ -n "$FAILS" ] && [ ! -e "$4" ]; then until [ "$(wc -l <"$SAID")" -ge "$WORLD_SIZE" ]; do sleep 0.1; done; : >"$4"; exit 1; fi
''')
    os.chmod(os.path.join(stand_in, "fftrain"), 0o755)
    # This torchrun, without what PyTorch 1.13 reads wrongly under Python 3.11: that nothing is redirected.
    with open(os.path.join(programs, "torchrun"), "w") as file:
        file.write('#!/bin/sh\nexec "%s" -m torch.distributed.run --redirects=9:1 --tee=9:1 "$@"\n' % sys.executable)
    os.chmod(os.path.join(programs, "torchrun"), 0o755)
    path = stand_in + ":" + clean["PATH"]
    lines = {}
    for name, fails in (("well", ""), ("failing", "yes")):
        file = os.path.join(folder, name + ".txt")
        run = os.path.join(folder, name)
        _, failure = agents(run, "--data", "a b", "--epochs", "2", ranks=2, PATH=path, SAID=file, FAILS=fails)
        lines[name] = []
        if os.path.exists(file):
            with open(file) as said:
                lines[name] = sorted(said.read().splitlines())
        tap.ok(not failure, "torchrun-two-machines.sh: two agents of 2 ranks each, %s" % name, failure)
    first = ["%d of 4, %d of 2 at address port: --resume auto --out %s --data a b --epochs 2" % (rank, rank % 2, os.path.join(folder, "%s"))
             for rank in range(4)]
    tap.ok(lines["well"] == [line % "well" for line in first], "each rank has its numbers and words", lines["well"])
    tap.ok(lines["failing"] == sorted(2 * [line % "failing" for line in first]), "after a failure all start again",
           lines["failing"])
    if not distributed:
        return
    run = os.path.join(folder, "torchrun")
    said, failure = agents(run, "--data", os.path.join(folder, "set"), "--model", "smallnet", "--epochs", "2", *TRAIN.split())
    tap.ok(not failure and any("after epoch 2" in text for text in said), "fftrain trains under two agents", failure or said)


try:
    os.mkdir(programs)
    for each in ("ffpack", "ffinspect", "fftrain"):
        os.symlink(os.path.join(os.path.realpath(tap.BUILD), each), os.path.join(programs, each))
    make_set()
    if importlib.util.find_spec("yaml") is None:
        tap.skip("Kubernetes", "the Python module yaml is not installed")
    elif importlib.util.find_spec("PIL") is None:
        tap.skip("Kubernetes", "the Python module PIL is not installed")
    else:
        kubernetes_packs()
        shutil.rmtree(os.path.join(folder, "packed"))
        kubernetes_trains()
    torchrun_starts()
finally:
    shutil.rmtree(folder)
tap.finish()
