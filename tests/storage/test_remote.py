#!/usr/bin/python3
"""Sets behind URLs: the same losses as from a folder, from a web server and from S3 with signed requests; with a cache of half the
set, which never has more than it may and fetches what the optimal replacement would; with faults of the server, killed runs, runs
that share a cache; keys from each place where the AWS tools find them. Prints TAP."""
# Needs: ffpack fftrain ffinspect python-package
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server import Server  # noqa: E402

try:
    import numpy
except ImportError as missing:
    tap.skip("sets behind URLs", "Python lacks a module: %s" % missing)
    tap.finish()
sys.path.insert(0, os.path.join(tap.BUILD, "python"))
import ffload  # noqa: E402
FFPACK, FFTRAIN, FFINSPECT = (os.path.join(tap.BUILD, name) for name in ("ffpack", "fftrain", "ffinspect"))
rng = random.Random(3)
place = tempfile.mkdtemp()
os.chdir(place)
TRAIN = ["--model", "smallnet", "--batch", "32", "--seed", "1", "--val", "none", "--quiet", "--threads", "1"]
MIB = 1 << 20


def run(command, env=None, timeout=300):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, env=env)


def losses(data, *options, env=None, log="log.jsonl", code=0):
    """The losses of a run's epochs, or what it said."""
    if os.path.exists(log):
        os.remove(log)
    done = run([FFTRAIN, "--data", data, *TRAIN, *options, "--log-json", log], env)
    if done.returncode != code:
        return "exit %d: %s" % (done.returncode, done.stderr[-600:])
    with open(log) as file:
        lines = [json.loads(line) for line in file]
    return [line["train_loss"] for line in lines if line["event"] == "epoch"]


def cached(folder="cache"):
    """The bytes that the files of a cache take on the disk."""
    return sum(os.lstat(os.path.join(at, name)).st_blocks * 512 for at, _, names in os.walk(folder) for name in names)


def make_sets():
    numpy.save("x.npy", numpy.random.RandomState(1).randint(0, 256, (500, 64, 64, 3), dtype=numpy.uint8))
    numpy.save("y.npy", numpy.arange(500) % 10)
    for name, more in (("raw", []), ("zstd", ["--compress", "zstd"])):
        done = run([FFPACK, "x.npy", "-o", "sets/%s/train" % name, "--shard-size", "3M", "--dtype", "f32", "--stats", "compute", *more])
        assert done.returncode == 0, done.stderr


def same(server, env):
    expected = {name: losses("sets/%s/train" % name, "--epochs", 2) for name in ("raw", "zstd")}
    for what, url, name in (("a web server", server.url + "/bucket/", "raw"), ("S3", "s3://bucket/", "zstd"), ("S3", "s3://bucket/", "raw")):
        shutil.rmtree("cache", ignore_errors=True)
        server.forget()
        got = losses(url + name, "--epochs", 2, env=env)
        set_bytes = sum(os.path.getsize(os.path.join("sets", name, "train", file)) for file in os.listdir("sets/%s/train" % name))
        tap.ok(got == expected[name] and server.bytes < set_bytes * 1.1, "%s from %s: the losses of a folder, each byte fetched once" % (name, what),
               (got, expected[name], server.bytes, set_bytes))
        server.forget()
        again = losses(url + name + "/train", "--epochs", 2, env=env)
        tap.ok(again == expected[name] and server.bytes < 20000, "%s again: from the cache" % name, (again, server.bytes))
    shutil.rmtree("cache")
    server.forget()
    got = losses("s3://bucket/raw", "--epochs", 2, "--ranks", 4, env=env)
    alone = losses("sets/raw/train", "--epochs", 2, "--ranks", 4)
    tap.ok(got == alone and server.bytes < 27 * MIB, "four ranks: each piece is fetched once", (got, alone, server.bytes))


def resumed(env):
    """Continued with an empty cache."""
    found = []
    for data, name in (("sets/raw/train", "run1"), ("s3://bucket/raw", "run2")):
        shutil.rmtree("cache", ignore_errors=True)
        first = losses(data, "--epochs", 1, "-o", name, env=env)
        shutil.rmtree("cache", ignore_errors=True)
        found.append((first, losses(data, "--epochs", 2, "--resume", name, env=env)))
    tap.ok(found[0] == found[1] and isinstance(found[1][1], list), "resumed with an empty cache", found)


def inspected(server, env):
    done = run([FFINSPECT, "s3://bucket/raw/train", "--verify"], env)
    tap.ok(done.returncode == 0 and "s3://bucket/raw/train: verified" in done.stdout, "ffinspect --verify", done.stdout + done.stderr)
    shutil.rmtree("cache")
    server.forget()
    local, done = (run([FFINSPECT, where, "--sample", 250, "--json"], env) for where in ("sets/raw/train", "s3://bucket/raw/train"))
    samples = [json.loads(text.stdout) if text.returncode == 0 else text.stderr for text in (local, done)]
    alike = [sample["splits"][0] if isinstance(sample, dict) else sample for sample in samples]
    for sample in alike:
        if isinstance(sample, dict):
            del sample["path"]
    tap.ok(alike[0] == alike[1] and server.bytes < 2.5 * MIB, "a sample: a piece or two is fetched", ([name for name in alike[0] if alike[0][name] != alike[1][name]] if isinstance(alike[1], dict) else alike[1], server.bytes))


def simulated(order, pieces, capacity):
    """How many pieces the optimal replacement fetches (Belady)."""
    uses = [piece for sample in order for piece in pieces[sample]]
    following, last = [0] * len(uses), {}
    for at in range(len(uses) - 1, -1, -1):
        following[at] = last.get(uses[at], len(uses) + 1)
        last[uses[at]] = at
    there, fetched = {}, 0
    for at, piece in enumerate(uses):
        if piece not in there:
            fetched += 1
            if len(there) == capacity:
                del there[max(there, key=there.get)]
        there[piece] = following[at]
    return fetched


def batches(url, **options):
    """What a loader makes: for each batch the numbers of its samples, and a checksum of its images."""
    loader = ffload.Loader(url, batch_size=20, seed=1, return_indices=True, last_batch="keep", workers=2, as_="numpy", **options)
    return [([int(number) for number in batch[-1]], zlib.crc32(numpy.asarray(batch[0]).tobytes())) for batch in loader]


def small(server):
    """A cache of half the set, read in block order: blocks are shards here, so the optimum is far from fetching all."""
    numpy.save("x.npy", numpy.random.RandomState(2).randint(0, 256, (2000, 64, 64, 3), dtype=numpy.uint8))
    numpy.save("y.npy", numpy.arange(2000) % 10)
    done = run([FFPACK, "x.npy", "-o", "sets/large/train", "--shard-size", "3M", "--dtype", "f32", "--stats", "compute"])
    assert done.returncode == 0, done.stderr
    server.add("sets", "bucket")
    facts = json.loads(run([FFINSPECT, "sets/large/train", "--sample", "0:2000", "--json"]).stdout)["splits"][0]["sample"]
    pieces = [[(fact["shard"], piece) for piece in range(fact["offset"] // MIB, (fact["offset"] + fact["bytes"] - 1) // MIB + 1)] for fact in facts]
    options = {"order": "block", "block": 63, "group": 2, "memory": "8M", "epochs": 3}
    expected = batches("sets/large/train", **options)
    most, stop = [0], threading.Event()
    os.environ["FFPACK_CACHE_SIZE"] = "49M"
    shutil.rmtree("cache", ignore_errors=True)
    os.mkdir("cache")
    # A disk of its own is asked at once; while its files are added up one after another, pieces come and go.
    disk = not os.geteuid() and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200M", "tmpfs", "cache"], capture_output=True).returncode == 0
    server.forget()

    def used():
        info = os.statvfs("cache")
        return (info.f_blocks - info.f_bfree) * info.f_frsize

    def watch():
        while not stop.is_set():
            most[0] = max(most[0], used() if disk else min(cached(), cached()))
            time.sleep(0.005)
    watcher = threading.Thread(target=watch)
    watcher.start()
    got = batches("s3://bucket/large/train", **options)
    stop.set()
    watcher.join()
    del os.environ["FFPACK_CACHE_SIZE"]
    # `pieces`, `usage` and the index are not counted.
    tap.ok(got == expected and most[0] <= 49 * MIB + 600000, "a cache of half the set: the batches of a folder, never more than allowed", most)
    if disk:
        subprocess.run(["umount", "-l", "cache"], check=True)
    fetched, optimal = server.bytes / MIB, simulated([number for numbers, _ in got for number in numbers], pieces, 48)
    tap.ok(fetched <= 1.15 * optimal and (fetched - 95) / 2 <= 0.6 * 95, "of 95 pieces in 3 epochs %.0f are fetched, and the optimal replacement fetches %d" % (fetched, optimal))
    shutil.rmtree("cache")


def shared(env):
    """Two runs of different sets and two of one share a cache that is smaller than what they read."""
    shutil.rmtree("cache", ignore_errors=True)
    own = {**env, "FFPACK_CACHE_SIZE": "12M"}
    expected = {name: losses("sets/%s/train" % name, "--epochs", 3) for name in ("raw", "zstd")}
    got = {}

    def one(number, name):
        got[number] = losses("s3://bucket/" + name, "--epochs", 3, env=own, log="log%d.jsonl" % number)
    threads = [threading.Thread(target=one, args=each) for each in enumerate(("raw", "zstd", "raw"))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    tap.ok([got[i] for i in range(3)] == [expected[name] for name in ("raw", "zstd", "raw")] and cached() < 12 * MIB + 400000,
           "three runs, two sets, one cache", (got, expected, cached()))


def killed(env, times):
    """Killed at any moment, the cache is right for the next run."""
    expected, wrong = losses("sets/raw/train", "--epochs", 1), []
    for i in range(times):
        shutil.rmtree("cache", ignore_errors=True)
        for _ in range(2):
            process = subprocess.Popen([FFTRAIN, "--data", "s3://bucket/raw", *TRAIN, "--epochs", "3"], env={**env, "FFPACK_CACHE_SIZE": "9M"},
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(rng.uniform(0.02, 1.2))
            process.kill()
            process.wait()
        got = losses("s3://bucket/raw", "--epochs", 1, env={**env, "FFPACK_CACHE_SIZE": "9M"})
        if got != expected or cached() > 9 * MIB + 200000:
            wrong.append((i, got, cached()))
    tap.ok(not wrong, "killed %d times while it fetched" % (2 * times), wrong)


def faulty(server, times):
    """Faults of many kinds, drawn: the right batches, or one sentence with the URL."""
    passing = [("status", 500, []), ("status", 503, [("Retry-After", "0")]), ("status", 429, []), ("reset",), ("cut", 0), ("cut", 5000), ("stall", 0.2), ("flip",)]
    lasting = [("shift",), ("whole",), ("status", 403, []), ("status", 404, [])]
    expected, wrong, failed = {name: batches("sets/%s/train" % name, epochs=1) for name in ("raw", "zstd")}, [], 0
    for i in range(times):
        kind, share, name = rng.choice(passing + lasting), rng.choice((0.02, 0.1, 0.3)), rng.choice(("raw", "zstd"))
        shutil.rmtree("cache", ignore_errors=True)
        server.forget()
        chance = random.Random(i)
        # What is flipped in an index or a footer is refused; samples are fetched again.
        server.fault = lambda number, handler, kind=kind, share=share, chance=chance: kind if number > 12 and chance.random() < share else None
        try:
            got, said = batches("s3://bucket/%s/train" % name, epochs=1), ""
        except (OSError, RuntimeError, ValueError) as error:
            got, said = None, "%s: %s" % (type(error).__name__, error)
        server.fault = None
        failed += not got
        if got and got != expected[name] or not got and (("s3://bucket/" + name not in said and ".ffs" not in said) or (kind in passing and kind != ("flip",))):
            wrong.append((kind, share, name, said))
    tap.ok(not wrong, "%d loaders with faults of the server: the right batches, or a sentence (%d)" % (times, failed), wrong)


def repaired(env):
    """A byte of the cache is wrong, as after a power cut: it is fetched again."""
    shutil.rmtree("cache", ignore_errors=True)
    expected = losses("s3://bucket/raw", "--epochs", 1, env=env)
    folder = next(os.path.join("cache", name) for name in os.listdir("cache") if len(name) == 32)
    for shard in (0, 3):
        with open("%s/shard-%06d.ffs" % (folder, shard), "r+b") as file:
            file.seek(1500000)
            file.write(b"\0" * 100000)
    got = losses("s3://bucket/raw", "--epochs", 1, env=env)
    tap.ok(isinstance(got, list) and got == expected, "what is wrong in the cache is fetched again", (got, expected))


def replaced(server, env):
    """Another set is put in its place during a run."""
    shutil.rmtree("cache", ignore_errors=True)
    kept = dict(server.objects)
    server.forget()

    def fault(number, handler):
        if number == 8:
            for name in server.objects:
                if name.startswith("bucket/raw/"):
                    server.objects[name] = kept[name][:-1] + bytes([kept[name][-1] ^ 1])
        return None
    server.fault = fault
    got = losses("s3://bucket/raw", "--epochs", 1, "--order", "sequential", env=env)
    server.fault = None
    server.objects.update(kept)
    tap.ok(isinstance(got, str) and ("was replaced while it was read" in got or "exit 65" in got), "a set that is replaced", str(got))


def replaced_between(server):
    """A body ends early, and before it continues another object is in its place."""
    shutil.rmtree("cache", ignore_errors=True)
    kept, state = dict(server.objects), {"cut": None}

    def fault(number, handler):
        match = handler.headers.get("Range", "").partition("=")[2].partition("-")
        long = handler.name.endswith(".ffs") and match[2] and int(match[2]) - int(match[0]) > 100000
        if not state["cut"] and long:
            state["cut"] = handler.name
            return "cut", 5000
        if state["cut"] == handler.name:
            server.objects[handler.name] = bytes(reversed(kept[handler.name]))
        return None
    server.fault = fault
    try:
        got = batches("s3://bucket/raw/train", epochs=1, verify="off")
    except (OSError, RuntimeError, ValueError) as error:
        got = str(error)
    server.fault = None
    server.objects.update(kept)
    tap.ok(state["cut"] and isinstance(got, str) and "s3://bucket/raw/train" in got and "was replaced while it was read" in got, "replaced while a body was cut", str(got)[:300])


def keys(server):
    """Keys from each place, signed as AWS wants it: the server checks."""
    bare = {name: value for name, value in server.environment(FFPACK_CACHE="cache").items() if name not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    os.makedirs("home/.aws", exist_ok=True)
    with open("home/.aws/credentials", "w") as file:
        file.write("[default]\naws_access_key_id = wrong\naws_secret_access_key = wrong\n\n# mine\n[mine]\naws_access_key_id=KEY\naws_secret_access_key =  the/secret+\n")
    with open("home/.aws/config", "w") as file:
        file.write("[profile mine]\nregion = eu-central-1\ns3 =\n    addressing_style = path\n")
    server.keys["TEMPORARY"] = ("other", "the token")
    answer = json.dumps({"AccessKeyId": "TEMPORARY", "SecretAccessKey": "other", "Token": "the token", "Expiration": "2099-01-01T00:00:00Z"}).encode()
    xml = b"<Credentials><AccessKeyId>TEMPORARY</AccessKeyId><SecretAccessKey>other</SecretAccessKey><SessionToken>the token</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>"
    asked = []
    server.services["/sts/"] = lambda handler: asked.append(handler.query) or (200, xml)
    server.services["/agent"] = lambda handler: (200, answer) if handler.headers.get("Authorization") == "pass" else (401,)
    server.services["/latest/api/token"] = lambda handler: (200, b"session") if handler.command == "PUT" else (405,)
    roles = "/latest/meta-data/iam/security-credentials/"
    server.services[roles] = lambda handler: (200, b"role") if handler.headers.get("X-aws-ec2-metadata-token") == "session" else (401,)
    server.services[roles + "role"] = lambda handler: (200, answer) if handler.headers.get("X-aws-ec2-metadata-token") == "session" else (401,)
    with open("identity", "w") as file:
        file.write("web token/+\n")
    cases = (("the environment", {"AWS_ACCESS_KEY_ID": "KEY", "AWS_SECRET_ACCESS_KEY": "the/secret+"}, True),
             ("the environment, with a session", {"AWS_ACCESS_KEY_ID": "TEMPORARY", "AWS_SECRET_ACCESS_KEY": "other", "AWS_SESSION_TOKEN": "the token"}, True),
             ("a profile", {"HOME": "home", "AWS_PROFILE": "mine"}, True),
             ("a web identity", {"AWS_WEB_IDENTITY_TOKEN_FILE": "identity", "AWS_ROLE_ARN": "arn:aws:iam::1:role/a", "AWS_ENDPOINT_URL_STS": server.url + "/sts"}, True),
             ("a container's agent", {"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/agent", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "pass"}, True),
             ("an instance's role", {"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url}, True),
             ("a wrong secret", {"AWS_ACCESS_KEY_ID": "KEY", "AWS_SECRET_ACCESS_KEY": "wrong"}, False),
             ("the default profile, whose keys are wrong", {"HOME": "home"}, False),
             ("no keys", {}, False))
    for name, variables, right in cases:
        shutil.rmtree("cache", ignore_errors=True)
        done = run([FFINSPECT, "s3://bucket/raw/train"], {**bare, **variables})
        tap.ok(done.returncode == 0 if right else done.returncode == 74 and "s3://bucket/raw/train" in done.stderr and "403 SignatureDoesNotMatch" in done.stderr,
               "keys from %s" % name, done.stdout[:200] + done.stderr)
    tap.ok(asked and asked[0].get("WebIdentityToken") == "web token/+" and asked[0].get("Action") == "AssumeRoleWithWebIdentity", "the web identity is sent", asked)
    done = run([FFINSPECT, "s3://bucket/raw/train"], {**bare, "AWS_PROFILE": "missing", "HOME": "home"})
    tap.ok(done.returncode == 2 and "AWS_PROFILE=missing" in done.stderr, "a profile that does not exist", done.stderr)
    for way in ("credential_process", "sso_session", "sso_start_url", "role_arn"):
        with open("home/.aws/config", "a") as file:
            file.write("[profile by-%s]\n%s = something\n" % (way, way))
        done = run([FFINSPECT, "s3://bucket/raw/train"], {**bare, "AWS_PROFILE": "by-" + way, "HOME": "home"})
        tap.ok(done.returncode == 2 and "the profile by-%s has %s, which is not read here; wanted keys, as set by: eval " % (way, way) in done.stderr,
               "keys by %s of a profile" % way, done.stderr)


def spelled(bare):
    """Files of the AWS tools in all forms that these read, which is what Python's configparser reads; the server sees which key was taken."""
    seen = []
    other, third = Server(fault=lambda number, handler: seen.append(handler.headers)), Server(fault=lambda number, handler: seen.append(handler.headers))
    key, config = "aws_access_key_id = %s\naws_secret_access_key = s\n", "[profile b]\nregion = eu-west-1\n"
    cases = (("a comment behind a heading", "[default] # mine\n" + key % "A", "", {}, ("A", "us-east-1", None)), ("a blank behind a heading", "[default] \n" + key % "A", "", {}, ("A", "us-east-1", None)),
             ("indented lines", "  [default]\n" + "  aws_access_key_id = A\n  aws_secret_access_key = s\n", "", {}, ("A", "us-east-1", None)),
             ("capitals and colons", "[default]\nAWS_ACCESS_KEY_ID: A\nAws_Secret_Access_Key:s\n", "", {}, ("A", "us-east-1", None)),
             ("an indented comment", "[default]\n  # aws_access_key_id = B\n" + key % "A", "", {}, ("A", "us-east-1", None)),
             ("a setting of a setting", "[default]\ns3 =\n  aws_access_key_id = B\n" + key % "A", "", {}, ("A", "us-east-1", None)),
             ("the keys of one file", "[default]\n" + key % "A", "[default]\n" + key % "B" + "aws_session_token = T\n", {}, ("A", "us-east-1", None)),
             ("the older name of a token", "[default]\naws_security_token = T\n" + key % "A", "", {}, ("A", "us-east-1", "T")),
             ("AWS_DEFAULT_PROFILE", "[a]\n" + key % "A" + "[b]\n" + key % "B", config, {"AWS_DEFAULT_PROFILE": "b", "AWS_PROFILE": "a"}, ("B", "eu-west-1", None)),
             ("a quoted name", "[b c]\n" + key % "A", '[profile "b c"]\nregion = eu-west-1\n', {"AWS_PROFILE": "b c"}, ("A", "eu-west-1", None)),
             ("a section of the configuration that is no profile", "[b]\n" + key % "A", "[b]\nregion = us-west-2\n" + config, {"AWS_PROFILE": "b"}, ("A", "eu-west-1", None)),
             ("~ in a variable", "[default]\n" + key % "A", "", {"AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}, ("A", "us-east-1", None)),
             ("half a key of the environment", "[default]\n" + key % "A", "", {"AWS_ACCESS_KEY_ID": "C"}, "AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY"),
             ("half a key of a file", "[default]\naws_access_key_id = A\n", "[default]\n" + key % "B", {}, "the profile default has aws_access_key_id without"),
             ("a role before keys", "[default]\n" + key % "A", "[default]\nrole_arn = r\nsource_profile = default\n", {}, "the profile default has role_arn, which is not read here"),
             ("AWS_DEFAULT_PROFILE that does not exist", "[a]\n" + key % "A", "", {"AWS_DEFAULT_PROFILE": "b"}, "AWS_DEFAULT_PROFILE=b: ~/.aws/credentials"))
    os.makedirs("spelled/.aws", exist_ok=True)
    bare = {**bare, "AWS_ENDPOINT_URL": other.url, "HOME": "spelled"}

    def taken(credentials, configuration, variables):
        for name, text in (("credentials", credentials), ("config", configuration)):
            with open("spelled/.aws/" + name, "w") as file:
                file.write(text)
        seen.clear()
        done = run([FFINSPECT, "s3://bucket/none/train"], {**bare, **variables})
        if not seen:
            return done.stderr
        match = re.match("AWS4-HMAC-SHA256 Credential=([^/]+)/[0-9]+/([^/]+)/s3", seen[0].get("Authorization", ""))
        return match and (*match.groups(), seen[0].get("x-amz-security-token"))
    for name, credentials, configuration, variables, wanted in cases:
        for crlf in (False, True):
            texts = [text.replace("\n", "\r\n") if crlf else text for text in (credentials, configuration)]
            got = taken(*texts, variables)
            tap.ok(got == wanted if isinstance(wanted, tuple) else isinstance(got, str) and wanted in got, "keys: %s%s" % (name, ", CRLF" if crlf else ""), (got, wanted))
    services = "[default]\nservices = mine\nendpoint_url = http://127.0.0.1:1\n[services mine]\ndynamodb =\n  endpoint_url = http://127.0.0.1:1\ns3 =\n  endpoint_url = %s\n" % third.url
    bare["AWS_ENDPOINT_URL"] = ""
    taken("[default]\n" + key % "A", services, {})
    tap.ok(len(seen) > 0 and seen[0]["Host"] == third.url[7:], "the endpoint of the profile's services", len(seen))
    got = taken("[default]\n" + key % "A", "[default]\nservices = none\n", {})
    tap.ok(isinstance(got, str) and "has services = none" in got, "services that are not there", got)
    with open("spelled/.netrc", "w") as file:
        file.write("default login a password b\n")
    bare["AWS_ENDPOINT_URL"] = other.url
    taken("", "", {})
    tap.ok(len(seen) > 0 and seen[0]["Authorization"] is None, "no password of ~/.netrc for a bucket", [one["Authorization"] for one in seen])
    for one in (other, third):
        one.shutdown()


def refused(server, env):
    for url, code, words in (("s3://x/raw", 2, "has no name of a bucket after s3://"), ("s3://", 2, "s3://: has no name of a bucket after s3://"), ("http:///raw", 2, "names no server"), ("http://u:p@host/raw", 2, "must not hold a user's name"),
                             (server.url + "/bucket/raw?x=1", 2, "a URL with ? or # has no objects below it"), ("s3://bucket/none", 74, "there is no index.ffx, and none in train, val, valid or test below it")):
        done = run([FFINSPECT, url], env)
        tap.ok(done.returncode == code and words in done.stderr and done.stderr.count("\n") == 1 and "u:p" not in done.stderr, "refused: %s" % url.replace(server.url, ""), (done.returncode, done.stderr))
    done = run([FFINSPECT, "s3://bucket/raw/train"], {**env, "FFPACK_CACHE": "/proc/none"})
    tap.ok(done.returncode == 74 and "/proc/none" in done.stderr, "a cache that cannot be made", done.stderr)
    done = run([FFINSPECT, "s3://bucket/raw/train"], {**env, "FFPACK_CACHE_SIZE": "12X"})
    tap.ok(done.returncode == 2 and "FFPACK_CACHE_SIZE=12X: is not a size as in 200G" in done.stderr, "a size that is none", done.stderr)
    process = subprocess.Popen([FFTRAIN, "--data", "s3://bucket/raw", *TRAIN, "--epochs", "3"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    server.fault = lambda number, handler: ("status", 503, [])
    time.sleep(1)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    server.fault = None
    tap.ok(process.returncode in (130, 75) and time.monotonic() - began < 15, "stopped by SIGINT while the server does not answer", (process.returncode, said))


make_sets()
server = Server(keys={"KEY": ("the/secret+", None)})
server.add("sets", "bucket")
env = server.environment(FFPACK_CACHE="cache")
os.environ.update({name: value for name, value in env.items() if name.startswith(("AWS_", "FFPACK_", "HOME"))})
if tap.SHORT:
    signed, server.keys = server.keys, {}
    same(server, env)
    server.keys = signed
    inspected(server, env)
    resumed(env)
    small(server)
    repaired(env)
    keys(server)
    spelled({name: value for name, value in env.items() if name not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")})
    refused(server, env)
    replaced_between(server)
    faulty(server, 10)
if tap.LONG:
    shared(env)
    replaced(server, env)
    killed(env, 6)
    faulty(server, 150)
os.chdir("/")
shutil.rmtree(place)
tap.finish()
