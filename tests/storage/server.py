"""A server of objects for the tests: S3's interface (GET with ranges, PUT, multipart, ListObjectsV2), AWS's signature 4 as its
page describes it, the services that hand out keys, and faults on request."""
import base64
import hashlib
import hmac
import html
import http.server
import os
import re
import socket
import socketserver
import struct
import threading
import time
import urllib.parse


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signature(secret, method, path, query, headers, signed, payload, stamp, scope):
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html"""
    lines = [method, path, "&".join(sorted(query.split("&"))) if query else ""]
    lines += ["%s:%s" % (name, " ".join(headers[name].split())) for name in signed.split(";")] + ["", signed, payload]
    request = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = sign(key, part)
    return sign(key, "\n".join(["AWS4-HMAC-SHA256", stamp, scope, request])).hex()


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """objects: {"bucket/key": bytes}. keys: {id: (secret, token or None)}, {} = nobody signs. fault(number, handler) returns None or
    ("status", code, headers), ("cut", bytes), ("reset",), ("stall", seconds), ("shift",), ("whole",), ("flip"[, byte]), ("version",):
    another ETag; for a request that joins parts also ("late",), a failure after 200, and ("lost",), an answer that does not arrive.
    expired: keys that were valid. visible(name) is called for each object that was written."""
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, objects=None, keys=None, fault=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects, self.keys, self.fault, self.expired = objects or {}, keys or {}, fault, set()
        self.lock, self.requests, self.log, self.bytes, self.services = threading.Lock(), 0, [], 0, {}
        self.parts, self.uploads, self.tags, self.visible = {}, 0, {}, lambda name: None  # parts: {upload: (name, {number: bytes})}
        self.sums = {}  # {name: (bytes, their MD5)}
        self.url = "http://127.0.0.1:%d" % self.server_port
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def add(self, folder, prefix):
        """The files of a folder as objects below a prefix."""
        for at, _, files in os.walk(folder):
            for name in files:
                path = os.path.join(at, name)
                with open(path, "rb") as file:
                    self.objects["%s/%s" % (prefix, os.path.relpath(path, folder))] = file.read()

    def settle(self):
        """Returns once nobody is connected: what killed clients had sent is done."""
        while any("process_request_thread" in one.name for one in threading.enumerate()):
            time.sleep(0.01)

    def tag(self, name, data):
        """The ETag of an object: of its parts, or its MD5."""
        if name in self.tags:
            return self.tags[name]
        known = self.sums.get(name)
        if not known or known[0] is not data:
            known = self.sums[name] = (data, hashlib.md5(data).hexdigest())
        return known[1]

    def forget(self):
        with self.lock:
            self.requests, self.log, self.bytes = 0, [], 0

    def handle_error(self, request, client_address):
        pass  # clients that go away

    def environment(self, **more):
        key = next(iter(self.keys), None)
        own = {"AWS_ENDPOINT_URL": self.url, "AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nowhere"}
        if key:
            own.update(AWS_ACCESS_KEY_ID=key, AWS_SECRET_ACCESS_KEY=self.keys[key][0])
        clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return {**clean, **own, **more}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, code, body=b"", headers=()):
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, code, name):
        self.answer(code, ("<?xml version='1.0'?><Error><Code>%s</Code><Message>no: %s</Message></Error>" % (name, name)).encode())

    def may(self):
        """Whether the request is signed by a known key."""
        if not self.server.keys:
            return True
        match = re.match(r"AWS4-HMAC-SHA256 Credential=([^/]+)/([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]+)$",
                         self.headers.get("Authorization", ""))
        if not match or match.group(1) not in self.server.keys:
            return False
        secret, token = self.server.keys[match.group(1)]
        if token and self.headers.get("x-amz-security-token") != token:
            return False
        path, _, query = self.path.partition("?")
        headers = {name.lower(): value for name, value in self.headers.items()}
        return signature(secret, self.command, path, query, headers, match.group(3), headers.get("x-amz-content-sha256", ""),
                         headers["x-amz-date"], match.group(2)) == match.group(4)

    def do(self):
        server = self.server
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length) if length else b""
        path, _, query = self.path.partition("?")
        self.name, self.query = urllib.parse.unquote(path)[1:], dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        if path in server.services:
            return self.answer(*server.services[path](self))
        with server.lock:
            server.requests += 1
            number = server.requests
            server.log.append((self.command, self.name, self.headers.get("Range", "")))
        self.wrong = server.fault(number, self) if server.fault else None
        if self.wrong and self.wrong[0] == "status":
            return self.answer(self.wrong[1], b"", self.wrong[2])
        if self.wrong and self.wrong[0] == "reset":
            return self.reset()
        if self.wrong and self.wrong[0] == "stall":
            time.sleep(self.wrong[1])
        if not self.may():
            return self.refuse(403, "SignatureDoesNotMatch")
        if any("Credential=%s/" % key in self.headers.get("Authorization", "") for key in server.expired):
            return self.refuse(403, "ExpiredToken")
        return getattr(self, "s3_" + self.command.lower())()

    do_GET = do_PUT = do_POST = do_DELETE = do

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def s3_get(self):
        server = self.server
        if "list-type" in self.query:
            return self.list()
        if "uploads" in self.query:
            return self.list_uploads()
        data = server.objects.get(self.name)
        if data is None:
            return self.refuse(404, "NoSuchKey")
        tag, wanted = '"%s"' % self.tag(self.name), self.headers.get("Range")
        match = wanted and re.match(r"bytes=(\d+)-(\d+)$", wanted)
        kind = self.wrong[0] if self.wrong else None
        if kind == "version":
            tag = '"another"'
        if not match or kind == "whole":
            return self.answer(200, data, [("ETag", tag)])
        begin, end = int(match.group(1)), min(int(match.group(2)) + 1, len(data))
        if begin >= len(data):
            return self.answer(416, b"", [("Content-Range", "bytes */%d" % len(data)), ("ETag", tag)])
        part = data[begin:end]
        if kind == "flip":
            at = self.wrong[1] % len(part) if len(self.wrong) > 1 else len(part) - 1
            part = part[:at] + bytes([part[at] ^ 1]) + part[at + 1:]
        self.send_response(206)
        self.send_header("ETag", tag)
        self.send_header("Content-Range", "bytes %d-%d/%d" % (begin + (kind == "shift"), end - 1 + (kind == "shift"), len(data)))
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if kind == "cut":
            part = part[:self.wrong[1]]
        self.wfile.write(part)
        with server.lock:
            server.bytes += len(part)
        if kind == "cut":
            self.wfile.flush()
            self.reset()

    def list(self):
        bucket = self.name.strip("/")
        names = sorted(name[len(bucket) + 1:] for name in self.server.objects if name.startswith(bucket + "/"))
        names = [name for name in names if name.startswith(self.query.get("prefix", "")) and name > self.query.get("continuation-token", "")]
        page, more = names[:7], len(names) > 7
        text = "".join("<Contents><Key>%s</Key><ETag>&quot;%s&quot;</ETag><Size>%d</Size></Contents>" % (
            urllib.parse.quote_plus(name), self.tag("%s/%s" % (bucket, name)), len(self.server.objects["%s/%s" % (bucket, name)])) for name in page)
        token = "<NextContinuationToken>%s</NextContinuationToken>" % html.escape(page[-1]) if more else ""
        self.answer(200, ("<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>%s</IsTruncated>%s%s</ListBucketResult>"
                          % ("true" if more else "false", text, token)).encode())

    def tag(self, name):
        return self.server.tag(name, self.server.objects[name])

    def list_uploads(self):
        bucket = self.name.strip("/")
        mine = sorted((name[len(bucket) + 1:], number) for number, (name, _) in self.server.parts.items() if name.startswith(bucket + "/"))
        mine = [one for one in mine if one[0].startswith(self.query.get("prefix", "")) and one > (self.query.get("key-marker", ""), self.query.get("upload-id-marker", ""))]
        page, more = mine[:2], len(mine) > 2
        text = "".join("<Upload><Key>%s</Key><UploadId>%s</UploadId></Upload>" % (urllib.parse.quote_plus(name), html.escape(number)) for name, number in page)
        if more:
            text += "<NextKeyMarker>%s</NextKeyMarker><NextUploadIdMarker>%s</NextUploadIdMarker>" % (urllib.parse.quote_plus(page[-1][0]), html.escape(page[-1][1]))
        self.answer(200, ("<ListMultipartUploadsResult><EncodingType>url</EncodingType><IsTruncated>%s</IsTruncated>%s</ListMultipartUploadsResult>"
                          % ("true" if more else "false", text)).encode())

    def s3_put(self):
        digest = hashlib.md5(self.body)
        if self.headers.get("Content-MD5") != base64.b64encode(digest.digest()).decode():
            return self.refuse(400, "BadDigest")
        if "partNumber" in self.query:
            if self.query["uploadId"] not in self.server.parts:
                return self.refuse(404, "NoSuchUpload")
            self.server.parts[self.query["uploadId"]][1][int(self.query["partNumber"])] = self.body
        else:
            self.server.tags.pop(self.name, None)
            self.server.objects[self.name] = self.body
            self.server.visible(self.name)
        self.answer(200, b"", [("ETag", '"%s"' % digest.hexdigest())])

    def s3_post(self):
        server = self.server
        if "uploads" in self.query:
            with server.lock:
                server.uploads += 1
                number = "id&%d/" % server.uploads
                server.parts[number] = (self.name, {})
            return self.answer(200, ("<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>" % html.escape(number)).encode())
        if self.query["uploadId"] not in server.parts:
            return self.refuse(404, "NoSuchUpload")
        if self.wrong and self.wrong[0] == "late":
            return self.answer(200, b"<?xml version='1.0'?><Error><Code>InternalError</Code></Error>")
        parts = sorted(server.parts[self.query["uploadId"]][1].items())
        wanted = [(int(number), tag) for number, tag in re.findall(rb"<PartNumber>(\d+)</PartNumber><ETag>([^<]*)</ETag>", self.body)]
        if wanted != [(number, ('"%s"' % hashlib.md5(data).hexdigest()).encode()) for number, data in parts]:
            return self.refuse(400, "InvalidPart")
        server.parts.pop(self.query["uploadId"])
        server.objects[self.name] = b"".join(data for _, data in parts)
        server.tags[self.name] = "%s-%d" % (hashlib.md5(b"".join(hashlib.md5(data).digest() for _, data in parts)).hexdigest(), len(parts))
        server.visible(self.name)
        if self.wrong and self.wrong[0] == "lost":
            return self.reset()
        return self.answer(200, ("<CompleteMultipartUploadResult><ETag>&quot;%s&quot;</ETag></CompleteMultipartUploadResult>" % server.tags[self.name]).encode())

    def s3_delete(self):
        if "uploadId" in self.query:
            self.server.parts.pop(self.query["uploadId"], None)
        else:
            self.server.objects.pop(self.name, None)
            self.server.tags.pop(self.name, None)
        self.answer(204)
