"""Lets a program show a picture that never comes, and prints what assistive technologies see of it: the role, the name
and the states of each object, read over the accessibility bus.

    tree.py PROGRAM

The program gets the URL of the picture as its argument, and has a bus of its own.
"""

import os
import signal
import socket
import subprocess
import sys
import time

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi, GLib  # noqa: E402


def lines(node, depth=0):
    states = sorted(state.value_nick for state in node.get_state_set().get_states())
    yield f'{"  " * depth}{node.get_role_name()} "{node.get_name()}" {" ".join(states)}'
    for number in range(node.get_child_count()):
        child = node.get_child_at_index(number)
        if child:
            yield from lines(child, depth + 1)


def main():
    if len(sys.argv) == 2:
        # The bus ends by a signal, which a test runner may block.
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.execvp("dbus-run-session", ["dbus-run-session", "--", sys.executable, *sys.argv, "on-bus"])
    server = socket.create_server(("127.0.0.1", 0))
    program = subprocess.Popen([sys.argv[1], f"http://127.0.0.1:{server.getsockname()[1]}/picture.png"])
    tree, end = [], time.monotonic() + 20
    # The bus tells of programs, but not when they have filled their windows.
    while not any(all(word in line for word in ["image", "busy"]) for line in tree) and time.monotonic() < end:
        GLib.MainContext.default().iteration(False)
        time.sleep(0.1)
        desktop = Atspi.get_desktop(0)
        desktop.clear_cache()
        try:
            tree = list(lines(desktop))
        except GLib.Error:
            tree = []
    program.kill()
    print("\n".join(tree))


main()
