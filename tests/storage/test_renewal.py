#!/usr/bin/python3
"""Keys that expire while a run uses them: those of an instance's role, a container's agent and a web identity are asked for again before
they expire, and once more when the server calls them expired; a service that has no answer for a while ends nothing. Prints TAP."""
# Needs: ffpack fftrain python
import json
import os
import shutil
import tempfile
import threading
import time

from server import Server
from remote_sets import losses, make_set, tap
place = tempfile.mkdtemp()
os.chdir(place)
ROLES = "/latest/meta-data/iam/security-credentials/"


class Service:
    """Hands out keys that the server accepts for `seconds`, and says that they live `told` seconds."""

    def __init__(self, server, seconds, told):
        self.server, self.seconds, self.told, self.handed, self.down, self.lock = server, seconds, told, 0, 0.0, threading.Lock()
        server.keys, server.expired = {"NOBODY": ("nothing", None)}, set()
        server.services["/latest/api/token"] = lambda handler: (200, b"session")
        server.services[ROLES] = lambda handler: (200, b"role")
        server.services[ROLES + "role"] = server.services["/agent"] = lambda handler: self.hand(json.dumps)
        server.services["/sts/"] = lambda handler: self.hand(self.xml)

    @staticmethod
    def xml(keys):
        return "<Credentials>%s</Credentials>" % "".join("<%s>%s</%s>" % (name, value, name) for name, value in
                                                         ((key.replace("Token", "SessionToken"), value) for key, value in keys.items()))

    def hand(self, form):
        if time.monotonic() < self.down:
            return 503,
        with self.lock:
            self.handed += 1
            key = "KEY%d" % self.handed
        self.server.keys[key] = ("secret" + key, "token" + key)
        threading.Timer(self.seconds, self.server.expired.add, [key]).start()
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.told))
        return 200, form({"AccessKeyId": key, "SecretAccessKey": "secret" + key, "Token": "token" + key, "Expiration": until}).encode()


def refusals(server):
    """Counts the requests that the server answers with ExpiredToken."""
    count, plain = [0], server.RequestHandlerClass.refuse

    def refuse(handler, code, name):
        count[0] += name == "ExpiredToken"
        plain(handler, code, name)
    server.RequestHandlerClass.refuse = refuse
    return count


def slow(number, handler):
    return "stall", 0.3


make_set("few", 300, 32, "--shard-size", "400K")
server = Server()
server.add("sets", "bucket")
bare = {name: value for name, value in server.environment(FFPACK_CACHE="cache", FFPACK_CACHE_SIZE="5M").items()}
with open("identity", "w") as file:
    file.write("web token\n")
PLACES = (("an instance's role", {"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url}),
          ("a container's agent", {"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/agent"}),
          ("a web identity", {"AWS_WEB_IDENTITY_TOKEN_FILE": "identity", "AWS_ROLE_ARN": "arn:aws:iam::1:role/a", "AWS_ENDPOINT_URL_STS": server.url + "/sts"}))
EPOCHS = 3
expected = losses("sets/few/train", "--epochs", EPOCHS)
refused = refusals(server)


def train(where, seconds, told, name, check, down=None):
    shutil.rmtree("cache", ignore_errors=True)
    service = Service(server, seconds, told)
    server.forget()
    refused[0] = 0
    server.fault = slow
    began = time.monotonic()
    if down:
        threading.Timer(down[0], lambda: setattr(service, "down", time.monotonic() + down[1])).start()
    got = losses("s3://bucket/few/train", "--epochs", EPOCHS, env={**bare, **where})
    took = time.monotonic() - began
    server.fault = None
    tap.ok(got == expected and check(service.handed, refused[0], took), "%s: asked for %d times in %.0f s, %d requests refused" % (name, service.handed, took, refused[0]), str(got)[:600])


for what, where in PLACES[:1] * tap.SHORT + PLACES[1:] * tap.LONG:
    # Half of 4 s is left when they are asked for again; and not at every request.
    train(where, 4, 4, what, lambda handed, no, took: took / 5 < handed <= took + 2 and no == 0)
what, where = PLACES[0]
if tap.SHORT:
    train(where, 2.5, 3600, "keys that expire earlier than their service says", lambda handed, no, took: took / 5 < handed <= took / 2.5 + 2 and 0 < no <= 70 * handed)
if tap.LONG:
    train(where, 6, 6, "a service that has no answer for 2 s before they expire", lambda handed, no, took: no == 0, down=(2, 2))
    train(where, 3, 3, "a service that has no answer for some seconds after they have expired", lambda handed, no, took: handed > 1, down=(0.5, 5))
Service(server, 0.5, 3600).hand(json.dumps)
time.sleep(0.8)
shutil.rmtree("cache", ignore_errors=True)
refused[0] = 0
got = losses("s3://bucket/few/train", "--epochs", 1, env={**bare, "AWS_ACCESS_KEY_ID": "KEY1", "AWS_SECRET_ACCESS_KEY": "secretKEY1", "AWS_SESSION_TOKEN": "tokenKEY1"})
tap.ok(isinstance(got, str) and "s3://bucket/few/train" in got and "403 ExpiredToken" in got and refused[0] == 2, "expired keys of the environment: one more try, then a sentence", (got, refused[0]))
os.chdir("/")
shutil.rmtree(place)
tap.finish()
