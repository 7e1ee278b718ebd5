# SPDX-License-Identifier: BSD-2-Clause
"""Makes the images, and reads an OCI layout by the specification (opencontainers/image-spec 1.1), refuses what breaks it, and unpacks it."""
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile

from documents import SOURCE

KIND = "application/vnd.oci.image"


def users_acl(digest):
    """The users of a lock server, for the password with this SHA-256."""
    return f"user default off\nuser locks on #{digest} ~* &* +@all -@admin -@dangerous +info\n"


def build(output, *images, static):
    """What it prints. The gateway and the module are those of this build, as they are installed."""
    tree = output.parent / "installed"
    if not tree.exists():
        subprocess.run(["cmake", "--install", os.environ["REDLOCK_BUILD"], "--prefix", "/usr"], env={**os.environ, "DESTDIR": str(tree)},
                       check=True, capture_output=True)
    return subprocess.run([SOURCE / "packaging/container/images", "-o", output, "--static", static, "--installed", tree, *images],
                          capture_output=True, text=True, check=True).stdout


class Image:
    def __init__(self, directory):
        self.directory, self.used = directory, set()
        assert json.loads((directory / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
        index = json.loads((directory / "index.json").read_text())
        assert index["schemaVersion"] == 2 and index["mediaType"] == f"{KIND}.index.v1+json"
        (named,) = index["manifests"]
        self.digest, self.reference = named["digest"], named["annotations"]["org.opencontainers.image.ref.name"]
        self.manifest = json.loads(self.blob(named, "manifest.v1+json"))
        assert self.manifest["schemaVersion"] == 2
        self.config = json.loads(self.blob(self.manifest["config"], "config.v1+json"))
        self.layers = [gzip.decompress(self.blob(layer, "layer.v1.tar+gzip")) for layer in self.manifest["layers"]]
        sums = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in self.layers]
        assert self.config["rootfs"] == {"type": "layers", "diff_ids": sums}
        assert {path.name for path in (directory / "blobs" / "sha256").iterdir()} == self.used, "a blob that nothing names"

    def blob(self, descriptor, kind):
        assert descriptor["mediaType"] == f"{KIND}.{kind}"
        algorithm, digest = descriptor["digest"].split(":")
        content = (self.directory / "blobs" / algorithm / digest).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (digest, descriptor["size"])
        self.used.add(digest)
        return content

    @property
    def packed(self):
        return sum(layer["size"] for layer in self.manifest["layers"])

    def entries(self):
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                yield from tar.getmembers()

    def unpack(self, directory):
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                tar.extractall(directory, filter="fully_trusted") if hasattr(tarfile, "data_filter") else tar.extractall(directory)
        return directory
