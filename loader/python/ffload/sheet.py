"""A packed split in a notebook."""
from __future__ import annotations

import base64
import os
import subprocess
import tempfile
from collections.abc import Sequence
from html import escape

from . import programs
from .errors import Error


def html(text: str, path: str, options: Sequence[str] = ()) -> str:
    """The text, and the contact sheet of ffinspect with these options, if there is one."""
    words = "<pre>%s</pre>" % escape(text)
    with tempfile.TemporaryDirectory() as folder:
        sheet = os.path.join(folder, "sheet.png")
        try:
            subprocess.run([programs.find("ffinspect"), "--png=" + sheet, "--grid=3x8", *options, "--",
                            path if "://" in path else os.path.abspath(path)], check=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with open(sheet, "rb") as file:
                picture = base64.b64encode(file.read()).decode()
        except (Error, OSError, subprocess.CalledProcessError):
            return words
    return words + '<img alt="%s" style="max-width: 100%%" src="data:image/png;base64,%s">' % (escape(text), picture)
