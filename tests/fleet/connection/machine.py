# SPDX-License-Identifier: BSD-2-Clause
"""How Ansible reaches a machine of machines.py: by its process 1, whose number is ansible_host."""
import shutil
import subprocess

from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: machine
short_description: a machine in namespaces
description: Enters the namespaces of a process.
extends_documentation_fragment: [connection_pipelining]
"""


class Connection(ConnectionBase):
    transport, has_pipelining = "machine", True

    def _connect(self):
        self._connected = True
        return self

    def _inside(self, path):
        return f"/proc/{self._play_context.remote_addr}/root{path}"

    def exec_command(self, cmd, in_data=None, sudoable=True):
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        enter = ["nsenter", "-t", str(self._play_context.remote_addr), "-m", "-n", "-p", "-u", "-i", "-C", "--root", "--wd", "env", "-i", "HOME=/root",
                 "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-c", cmd]
        done = subprocess.run(enter, input=in_data or b"", capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def put_file(self, in_path, out_path):
        shutil.copyfile(in_path, self._inside(out_path))

    def fetch_file(self, in_path, out_path):
        shutil.copyfile(self._inside(in_path), out_path)

    def close(self):
        self._connected = False
