"""A server that answers to another's name: a proxy takes what programs send to https://HOST, with a certificate of its own, and hands it to a
server of this machine."""
import http.client
import http.server
import socketserver
import ssl
import subprocess
import threading


class Request(http.server.BaseHTTPRequestHandler):
    """One connection that has reached HOST."""
    protocol_version = "HTTP/1.1"

    def do(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Expect"):
            self.send_response_only(100)
            self.end_headers()
        self.server.seen.append((self.command, self.path, {name.lower(): value for name, value in self.headers.items()}))
        asked = http.client.HTTPConnection("127.0.0.1", self.server.target)
        asked.request(self.command, self.path, body, {name: value for name, value in self.headers.items() if name.lower() not in ("host", "expect")})
        answer = asked.getresponse()
        data = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do

    def log_message(self, *_):
        pass


class Tunnel(socketserver.StreamRequestHandler):
    def handle(self):
        wanted = self.rfile.readline().split()
        while self.rfile.readline().strip():
            pass
        self.server.reached.add(wanted[1].decode())
        if wanted[:2] != [b"CONNECT", self.server.host.encode() + b":443"]:
            return self.wfile.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            Request(self.server.tls.wrap_socket(self.request, server_side=True), self.client_address, self.server)
        except OSError:
            pass


class Named(socketserver.ThreadingTCPServer):
    """host: its name. target: the port of the server that answers. seen: what it was asked, (method, path, headers); reached: the servers that
    were asked for; environment: what programs need to ask here."""
    daemon_threads = True

    def __init__(self, host, target):
        super().__init__(("127.0.0.1", 0), Tunnel)
        self.host, self.target, self.seen, self.reached = host, target, [], set()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "named.key", "-out", "named.pem", "-days", "2", "-subj", "/CN=" + host,
                        "-addext", "subjectAltName=DNS:" + host], check=True, capture_output=True)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain("named.pem", "named.key")
        self.environment = {"https_proxy": "http://127.0.0.1:%d" % self.server_address[1], "SSL_CERT_FILE": "named.pem"}
        threading.Thread(target=self.serve_forever, daemon=True).start()
