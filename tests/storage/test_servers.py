#!/usr/bin/python3
"""Sets and sources behind servers of others: nginx, and moto's S3. The losses and the sheet of facts are those of the same set in a
folder, and the sets those that the same files make on the disk. TAP."""
# Needs: ffpack fftrain ffinspect
import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from named import Named  # noqa: E402
from server import signature  # noqa: E402

try:
    import numpy
except ImportError as missing:
    tap.skip("servers of others", "Python lacks a module: %s" % missing)
    tap.finish()
FFPACK, FFTRAIN, FFINSPECT = (os.path.join(tap.BUILD, name) for name in ("ffpack", "fftrain", "ffinspect"))
place = tempfile.mkdtemp()
os.chmod(place, 0o755)
os.chdir(place)
BARE = {**{name: value for name, value in os.environ.items() if not name.startswith("AWS_")}, "FFPACK_CACHE": "cache", "HOME": place,
        "AWS_EC2_METADATA_DISABLED": "true"}


def run(*command, env=BARE):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, env=env)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_server(port):
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.1)
    return False


def losses(data, env=BARE):
    if os.path.exists("log"):
        os.remove("log")
    done = run(FFTRAIN, "--data", data, "--model", "smallnet", "--batch", 32, "--epochs", 2, "--quiet", "--out", "none", "--threads", 1, "--log-json", "log", env=env)
    if done.returncode:
        return "exit %d: %s" % (done.returncode, done.stderr)
    with open("log") as file:
        return [(line["train_loss"], line["val_loss"]) for line in map(json.loads, file) if line["event"] == "epoch"]


def compare(name, url, env=BARE):
    shutil.rmtree("cache", ignore_errors=True)
    got = losses(url, env)
    tap.ok(got == expected and len(got) == 2, "%s: training and validating has the losses of a folder" % name, (got, expected))
    facts = [run(FFINSPECT, where + "/train", env=env).stdout.split("\n")[1:] for where in ("packed", url)]
    tap.ok(facts[0] == facts[1] and len(facts[0]) > 5, "%s: ffinspect shows the same" % name, facts)
    done = run(FFINSPECT, url + "/missing", env=env)
    tap.ok(done.returncode == 74 and url + "/missing" in done.stderr and done.stderr.count("\n") == 1, "%s: a set that is missing" % name, done.stderr)


def pack(name, source, expected, env=BARE):
    """Packing from a server makes the set that the files make."""
    shutil.rmtree("out", ignore_errors=True)
    done = run(FFPACK, source, "-o", "out", "--no-history", env=env)
    alike = subprocess.run(["diff", "-r", "out", expected], capture_output=True, text=True)
    tap.ok(done.returncode == 0 and alike.returncode == 0, "%s: packing %s" % (name, source.split("/", 3)[3]), done.stderr + alike.stdout)


def with_nginx():
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:" + os.environ.get("PATH", ""))
    if not nginx:
        return tap.skip("nginx", "there is no nginx: package nginx-light")
    port = free_port()
    with open("nginx.conf", "w") as file:
        file.write("daemon off; master_process off; pid nginx.pid; error_log nginx.log; events {} http { access_log off; server { listen 127.0.0.1:%d; root %s; } }\n" % (port, place))
    server = subprocess.Popen([nginx, "-p", place, "-c", os.path.join(place, "nginx.conf")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(server.kill)
    tap.ok(await_server(port), "nginx starts")
    compare("nginx", "http://127.0.0.1:%d/packed" % port)
    pack("nginx", "http://127.0.0.1:%d/photos.tar" % port, "of-tar")
    pack("nginx", "http://127.0.0.1:%d/%%E6%%BC%%A2 b.tar?ignored=1" % port, "of-tar")
    server.terminate()
    server.wait()


def objects(python, keys, prefix):
    """Sizes and versions of the objects, and the uploads that were begun, as boto3 sees them."""
    code = ("import boto3, json; s3 = boto3.client('s3', region_name='us-east-1'); found = s3.list_objects_v2(Bucket='bucket', Prefix=%r).get('Contents', []);"
            "print(json.dumps([{one['Key']: [one['Size'], one['ETag']] for one in found}, [one['Key'] for one in s3.list_multipart_uploads(Bucket='bucket').get('Uploads', [])]]))" % prefix)
    return json.loads(subprocess.run([python, "-c", code], env=keys, capture_output=True, text=True, check=True).stdout)


def written(python, keys):
    """What ffpack writes into moto's bucket, by the eyes of boto3 and of ffpack."""
    large = ("large.npy", "--dtype", "u8", "--normalize", "half", "--shard-size", "20M", "--no-history")
    numpy.save("large.npy", numpy.random.RandomState(4).randint(0, 256, (1000, 128, 128, 3), dtype=numpy.uint8))
    assert run(FFPACK, *large, "-o", "large").returncode == 0
    sizes = {name: os.path.getsize("large/" + name) for name in os.listdir("large")}
    done = run(FFPACK, "push", "large", "s3://bucket/large", env=keys)
    pushed, uploads = objects(python, keys, "large/")
    tap.ok(done.returncode == 0 and {name[6:]: size for name, (size, _) in pushed.items()} == sizes and not uploads, "moto: push", (done.stderr, pushed, uploads))
    tap.ok(all('-%d"' % -(-size >> 23) in tag if size >= 8 << 20 else "-" not in tag for size, tag in pushed.values()), "moto: parts of 8 MiB", pushed)
    done = run(FFPACK, "push", "large", "s3://bucket/large", env=keys)
    tap.ok("; sent 0 files, 0 B" in done.stdout, "moto: what is there is not sent again", done.stdout + done.stderr)
    upload = ("import boto3; s3 = boto3.client('s3', region_name='us-east-1')\nfor name in %r: s3.upload_file('large/' + name, 'bucket', 'boto/' + name)" % sorted(sizes))
    subprocess.run([python, "-c", upload], env=keys, check=True)
    done = run(FFPACK, "push", "large", "s3://bucket/boto", env=keys)
    tap.ok("; sent 0 files, 0 B" in done.stdout, "moto: what boto3 has sent is not sent again", done.stdout + done.stderr)
    for _ in range(3):
        process = subprocess.Popen([FFPACK, *large, "-o", "s3://bucket/made"], env=keys, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.7)
        process.kill()
        process.wait()
        seen = objects(python, keys, "made/")[0]
        tap.ok("made/index.ffx" not in seen or len(seen) == len(sizes), "moto: packing killed: no index without its shards", seen)
    done = run(FFPACK, *large, "-o", "s3://bucket/made", env=keys)
    made, uploads = objects(python, keys, "made/")
    tap.ok((done.returncode == 0 or "exists already" in done.stderr) and {name[5:]: one for name, one in made.items()} == {name[6:]: one for name, one in pushed.items()} and not uploads,
           "moto: packing into the bucket, continued", (done.stderr, made, pushed, uploads))
    done = run(FFPACK, "ls", "s3://bucket", env=keys)
    tap.ok([line.split()[0] for line in done.stdout.splitlines()] == ["boto", "large", "made", "packed/train", "packed/val"], "moto: ls", done.stdout + done.stderr)
    done = run(FFPACK, "pull", "s3://bucket/made", "back", env=keys)
    tap.ok(done.returncode == 0 and tap.files_of("back") == tap.files_of("large"), "moto: pull", done.stderr)
    done = run(FFPACK, "verify", "s3://bucket/packed", env=keys)
    tap.ok(done.returncode == 0 and done.stdout.count("all good") == 2, "moto: verify", done.stdout + done.stderr)
    done = run(FFPACK, "push", "packed", "s3://bucket/large", env=keys)
    tap.ok(done.returncode == 2 and "exists already, as another set" in done.stderr, "moto: another set is refused", done.stderr)
    done = run(FFPACK, "push", "packed", "s3://bucket/large", "--force", env=keys)
    tap.ok(done.returncode == 0 and sorted(objects(python, keys, "large/")[0]) == sorted("large/%s/%s" % (split, name) for split in ("train", "val") for name in os.listdir("packed/" + split)),
           "moto: push --force", done.stderr)


def slash_first(python, keys):
    """Keys that begin with a slash, as boto3 writes and sees them."""
    files = {name: os.path.getsize("packed/val/" + name) for name in os.listdir("packed/val")}
    code = "import boto3; s3 = boto3.client('s3', region_name='us-east-1')\nfor name in %r: s3.upload_file('packed/val/' + name, 'bucket', '/first/' + name)" % sorted(files)
    subprocess.run([python, "-c", code], env=keys, check=True)
    done = run(FFPACK, "pull", "s3://bucket//first", "-o", "first", env=keys)
    tap.ok(done.returncode == 0 and tap.files_of("first") == tap.files_of("packed/val"), "moto: pull of keys that begin with a slash", done.stderr)
    done = run(FFPACK, "push", "packed/val", "s3://bucket//second", env=keys)
    tap.ok(done.returncode == 0 and {name: size for name, (size, _) in objects(python, keys, "/second/")[0].items()} == {"/second/" + name: size for name, size in files.items()},
           "moto: push of keys that begin with a slash", (done.stderr, objects(python, keys, "/second/")))
    done = run(FFPACK, "ls", "s3://bucket//second", env=keys)
    tap.ok("100 samples" in done.stdout, "moto: ls of keys that begin with a slash", done.stdout + done.stderr)


def google(python, keys, port):
    """gs:// asks storage.googleapis.com as its page on HMAC keys wants it: the bucket in the path, AWS4-HMAC-SHA256 of headers x-amz-, service s3.
    https://cloud.google.com/storage/docs/authentication/signatures and .../aws-simple-migration"""
    named = Named("storage.googleapis.com", port)
    secret = "bGoa+V7g/yqDXvKRqq+JTFn4uQZbPiQJo4pf9RzJ"
    own = {**{name: value for name, value in keys.items() if name != "AWS_ENDPOINT_URL"}, **named.environment, "AWS_ACCESS_KEY_ID": "GOOG1EXAMPLE", "AWS_SECRET_ACCESS_KEY": secret}
    done = [run(FFPACK, *words, env=own) for words in (("push", "packed", "gs://bucket/named"), ("ls", "gs://bucket/named"), ("pull", "gs://bucket/named", "named"))]
    tap.ok([one.returncode for one in done] == [0] * 3 and tap.files_of("named") == tap.files_of("packed") and len(done[1].stdout.splitlines()) == 2,
           "gs://: push, ls and pull by the name of Google's server", [one.stderr + one.stdout for one in done])
    tap.ok(named.reached == {"storage.googleapis.com:443"}, "gs://: no other server is asked", named.reached)
    wrong, regions = [], set()
    for method, path, headers in named.seen:
        scheme, _, parts = headers.get("authorization", "").partition(" ")
        found = dict(part.strip().split("=", 1) for part in parts.split(",") if "=" in part)
        key, _, scope = found.get("Credential", "").partition("/")
        regions.add("/".join(scope.split("/")[1:]))
        signed = found.get("SignedHeaders", "")
        good = (scheme == "AWS4-HMAC-SHA256" and key == "GOOG1EXAMPLE" and headers["host"] == "storage.googleapis.com" and path.startswith("/bucket/") and
                {"host", "x-amz-date", "x-amz-content-sha256"} <= set(signed.split(";")) and not [name for name in headers if name.startswith("x-goog-")] and
                signature(secret, method, *path.partition("?")[::2], headers, signed, headers["x-amz-content-sha256"], headers["x-amz-date"], scope) == found["Signature"])
        wrong += [] if good else [(method, path, headers)]
    tap.ok({"GET", "PUT"} <= {method for method, _, _ in named.seen} and not wrong, "gs://: each request is signed, path and headers", wrong[:2])
    tap.ok(regions == {"auto/s3/aws4_request"}, "gs://: and in the region auto", regions)
    bundle = {name: value for name, value in own.items() if name != "SSL_CERT_FILE"}
    done = [run(FFPACK, "ls", "gs://bucket/named", env={**bundle, **more}).returncode for more in ({}, {"AWS_CA_BUNDLE": "named.pem"})]
    tap.ok(done == [74, 0], "AWS_CA_BUNDLE has the certificate of a bucket's server", done)
    named.reached.clear()
    run(FFPACK, "ls", "s3://bucket", "--storage-timeout", "1", env={**own, "AWS_REGION": "cn-north-1"})
    tap.ok(named.reached == {"bucket.s3.cn-north-1.amazonaws.com.cn:443"}, "the servers of China's regions", named.reached)


def with_moto():
    python = tap.environment("moto", "moto[s3,server]==5.0.28", dependencies=True)
    if not python:
        return tap.skip("moto", "PyPI cannot be reached")
    port = free_port()
    server = subprocess.Popen([python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = "http://127.0.0.1:%d" % port
    atexit.register(server.kill)
    tap.ok(await_server(port), "moto starts")
    urllib.request.urlopen(urllib.request.Request(url + "/bucket", method="PUT")).read()
    put(url + "/sources", b"")
    for bucket, folder in (("bucket", "packed"), ("sources", "photos")):
        for at, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(at, name), "rb") as file:
                    put("%s/%s/%s" % (url, bucket, urllib.parse.quote(os.path.join(at, name))), file.read())
    with open("photos.tar", "rb") as file:
        put(url + "/sources/100%25%20b.tar", file.read())
    put(url + "/sources/photos/", b"")
    keys = {**BARE, "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_ENDPOINT_URL": url}
    compare("moto", "s3://bucket/packed", keys)
    pack("moto", "s3://sources/photos/", "of-photos", keys)
    pack("moto", "s3://sources/100% b.tar", "of-tar", keys)
    written(python, keys)
    slash_first(python, keys)
    google(python, keys, port)
    server.terminate()
    server.wait()


def put(url, data):
    urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": "application/octet-stream"}, method="PUT")).read()


def make_photos():
    for number, name in enumerate(("a b", "a+b", "\u6f22", "x%20y", "deep/er")):
        for kind in ("cat & dog", "b"):
            for i in range(12):
                path = "photos/%s/%s%d.ppm" % (kind, name, i)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(b"P6 8 8 255\n" + numpy.random.RandomState(100 * number + i).bytes(192))
    with tarfile.open("photos.tar", "w") as tar:
        tar.add("photos")
    shutil.copy("photos.tar", "\u6f22 b.tar")
    for source, out in (("photos", "of-photos"), ("photos.tar", "of-tar")):
        made = run(FFPACK, source, "-o", out, "--no-history")
        assert made.returncode == 0, made.stderr


make_photos()
for split, count, seed in (("train", 300, 1), ("val", 100, 2)):
    numpy.save("x.npy", numpy.random.RandomState(seed).randint(0, 256, (count, 32, 32, 3), dtype=numpy.uint8))
    numpy.save("y.npy", numpy.arange(count) % 10)
    source = ["--stats", "compute"] if split == "train" else ["--stats-from", "packed/train"]
    made = run(FFPACK, "x.npy", "-o", "packed/" + split, "--shard-size", "200K", *source)
    assert made.returncode == 0, made.stderr
expected = losses("packed")
with_nginx()
with_moto()
os.chdir("/")
shutil.rmtree(place)
tap.finish()
