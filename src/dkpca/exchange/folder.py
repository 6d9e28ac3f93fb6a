"""The folder of a study: files that are written once and whole, in any place that fsspec reaches.

The folder's host may delay, hide, alter, replace and delete. Nothing here trusts it: sizes are known before memory is
spent, nothing is cached, and what lies there already is never written over.
"""

import contextlib
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

import fsspec
from fsspec.spec import AbstractBufferedFile

from dkpca.errors import InputError, StorageError
from dkpca.wording import printable

BLOCK = 2**22  # bytes read from a distant file at a time
MOST_FILES = 10_000  # below one member's prefix, where no plan says more
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
FILE = re.compile(r"[a-z0-9][a-z0-9._-]{0,95}")
DEVICES = {"con", "prn", "aux", "nul", *(f"{kind}{number}" for kind in ("com", "lpt") for number in range(10))}
RESERVED = {"all", "plan"}  # the part of a file for everybody, and the plan among the files of the members
OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "az"}  # where a put is seen whole or not at all
Files = dict[str, dict[str, Any]]  # by name: "file", "bytes", and the "time" of its last change, if the host says it
EXTRAS = {"paramiko": "sftp", "webdav4": "webdav", "s3fs": "s3", "fsspec": "study"}


def check_name(name: str) -> str:
    """Names become folders on every kind of disk, so they are kept plain."""
    if not isinstance(name, str) or not NAME.fullmatch(name) or name in DEVICES | RESERVED:
        why = "is reserved or cannot be used; use up to 32 of a-z, 0-9, '_', '-'"
        raise InputError(f"member name {printable(str(name))!r} {why}")
    return name


class Folder:
    """A local path, or a URL such as sftp://user@host/path, webdav+https://host/path or s3://bucket/path."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._fs, self._root = _located(url)
        self._kinds = {self._fs.protocol} if isinstance(self._fs.protocol, str) else {*self._fs.protocol}

    @property
    def place(self) -> str:
        """Its URL in one spelling; of a local folder its path without links."""
        return os.path.realpath(self._root) if "file" in self._kinds else self.url.rstrip("/")

    def read(self, name: str, at_most: int) -> bytes | None:
        """Return all bytes of a small file; None while there is none."""
        with self.opened(name) as found:
            if found is None:
                return None
            file, size = found
            if size > at_most:
                raise StorageError(f"{self.url}/{name}: has {size} bytes, more than the {at_most} allowed here")
            return file.read(size + 1)[: size + 1]

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[tuple[BinaryIO, int] | None]:
        """Open a file for reading, with its size; None while there is none."""
        path, found, file = self._path(name), None, None
        with contextlib.ExitStack() as stack:
            with self._explained(name), contextlib.suppress(FileNotFoundError):
                self._fs.invalidate_cache()
                about = self._fs.info(path)
                if "file" in self._kinds and about["type"] == "file" and not about["islink"]:
                    file = stack.enter_context(open(path, "rb", opener=_at_once))
                    status = os.fstat(file.fileno())  # a pipe may have taken its place
                    about |= {"size": status.st_size} if stat.S_ISREG(status.st_mode) else {"type": "other"}
                found = about
            if found is None:
                yield None
                return
            if found.get("type") != "file" or found.get("islink") or not isinstance(found.get("size"), int):
                raise StorageError(f"{self.url}/{name}: is not a plain file of known size; remove it")
            stack.enter_context(self._explained(name))
            if file is None:
                file = stack.enter_context(self._fs.open(path, "rb", block_size=BLOCK))
            ahead = _Ahead(self._fs, path, file, found["size"]) if hasattr(file, "readv") else file
            yield cast("BinaryIO", ahead), found["size"]

    def write(self, name: str, content: bytes | Path) -> bool:
        """Write a new file whole, also from a local file; False if there is one already, which stays as it is."""
        path = self._path(name)
        with self._explained(name, writing=True):
            self._fs.invalidate_cache()
            if self._fs.exists(path):
                return False
            if OBJECT_STORES & self._kinds:
                self._store(path, content)
                return True
            parent = path.rpartition("/")[0]
            self._make(parent)
            part = f"{parent}/.{path.rpartition('/')[2]}.{secrets.token_hex(4)}.part".removeprefix("/" * (not parent))
            try:
                self._store(part, content)
                return self._move(part, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    self._fs.rm_file(part)
                raise

    def listing(self, member: str, at_most: int = MOST_FILES, named: re.Pattern[str] = FILE) -> Files:
        """Files below a member's prefix, but for those that are on their way and copies of sync clients."""
        found = self._entries(self._path(member), "file", at_most, named)
        whole = {name: each for name, each in found.items() if not name.endswith(".part")}
        return {n: {"file": n, "bytes": f.get("size") or 0, "time": _seconds(f)} for n, f in whole.items()}

    def exists(self) -> bool:
        """Whether there is such a folder; an object store has none until a file lies below its name."""
        with self._explained(""):
            return bool(OBJECT_STORES & self._kinds) or bool(self._fs.exists(self._root))

    def members(self) -> list[str]:
        """Names below which somebody has written."""
        return sorted(self._entries(self._root, "directory", MOST_FILES, NAME))

    def _entries(self, path: str, kind: str, at_most: int, named: re.Pattern[str]) -> dict[str, Any]:
        """Entries of one kind in a folder, by name; the listing stops where there are too many."""
        found = dict[str, Any]()
        with self._explained(path.removeprefix(self._root).strip("/")), contextlib.suppress(FileNotFoundError):
            self._fs.invalidate_cache()
            for each in self._listed(path):
                name = str(each["name"]).rstrip("/").rpartition("/")[2]
                if each.get("type") == kind and named.fullmatch(name):
                    found[name] = each
                if len(found) > at_most:
                    raise StorageError(f"{path}: has more than {at_most} files; remove those of no member")
        return found

    def _listed(self, path: str) -> Iterator[Any]:
        """Entries of a folder: one by one from a disk and over SFTP, all at once from other places."""
        if "file" in self._kinds:
            with os.scandir(path) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):  # it has been renamed since
                        yield self._fs.info(entry)
        elif "sftp" in self._kinds:
            yield from (self._fs._decode_stat(entry, path) for entry in self._fs.ftp.listdir_iter(path))
        else:
            yield from self._fs.ls(path, detail=True)

    def close(self) -> None:
        """End the connection, if there is one."""
        client: Any = getattr(self._fs, "client", None)
        with contextlib.suppress(OSError):
            if hasattr(client, "close"):  # of SSH
                client.close()
            elif hasattr(client, "http"):  # of WebDAV
                client.http.close()

    def _store(self, path: str, content: bytes | Path) -> None:
        if isinstance(content, Path):
            self._fs.put_file(str(content), path)
        else:
            self._fs.pipe_file(path, content)

    def _make(self, folder: str) -> None:
        """Make a folder and those above it, each by itself: a WebDAV server makes no parents."""
        if folder and not self._fs.exists(folder):
            self._make(folder.rpartition("/")[0])
            self._fs.makedirs(folder, exist_ok=True)
            if "file" in self._kinds:
                _show(folder, 0o055)

    def _move(self, part: str, path: str) -> bool:
        """Give a whole file its name; on a local disk in one step that never replaces another."""
        if "file" not in self._kinds:
            if self._fs.exists(path):
                return False
            self._fs.mv(part, path)
            return True
        _show(part, 0o044)
        with open(part, "rb+") as file:  # noqa: PTH123
            os.fsync(file.fileno())
        try:
            os.link(part, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without links, where the only other writer is the folder's host
            os.rename(part, path)  # noqa: PTH104
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)  # noqa: PTH108
        return True

    def _path(self, name: str) -> str:
        for part in name.split("/"):
            if not FILE.fullmatch(part) or part.partition(".")[0] in DEVICES:
                raise InputError(f"{printable(name)!r} is not the name of a file of a study")
        member = name.partition("/")[0]
        if "file" in self._kinds and os.path.islink(f"{self._root}/{member}"):  # noqa: PTH114
            raise StorageError(f"{self.url}/{member}: is a link to another place, not a member's folder; remove it")
        return f"{self._root}/{name}" if self._root else name

    @contextlib.contextmanager
    def _explained(self, name: str, *, writing: bool = False) -> Iterator[None]:
        """Turn whatever a file system raises into one sentence; its libraries have hundreds of classes for it."""
        try:
            yield
        except Exception as error:
            if isinstance(error, MemoryError) or type(error).__module__.startswith("dkpca"):
                raise
            where, member = f"{self.url}/{name}".rstrip("/"), name.partition("/")[0]
            if isinstance(error, PermissionError) and member and not writing:
                can = f"{member} has to make its folder readable for the other members, such as by chmod -R a+rX"
                raise StorageError(f"{where}: cannot be read (Permission denied); {can}") from error
            reason = printable(str(error))[:200] or type(error).__name__
            raise StorageError(f"{where}: the folder cannot be used ({reason}); check it and repeat") from error


class _Ahead(AbstractBufferedFile):  # type: ignore[misc]
    """A file of SFTP, read by many requests at once; unlike Paramiko's `prefetch`, none is left open at its end."""

    def __init__(self, fs: Any, path: str, file: Any, size: int) -> None:
        super().__init__(fs, path, block_size=BLOCK, size=size)
        self._file = file

    def _fetch_range(self, start: int, end: int) -> bytes:
        return b"".join(self._file.readv([(start, end - start)]))


def _show(path: str, to_others: int) -> None:
    """Let the other members read what is for them, whatever this member's umask is."""
    with contextlib.suppress(OSError):  # where nobody has permissions, or another made the folder meanwhile
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | to_others)  # noqa: PTH101, PTH116


def _at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the writer of a pipe, and no link."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))


def _seconds(listed: Any) -> float:
    found = [listed[key] for key in ("mtime", "LastModified", "modified", "created") if listed.get(key) is not None]
    return float(found[0].timestamp() if hasattr(found[0], "timestamp") else found[0]) if found else 0.0


def _located(url: str) -> tuple[Any, str]:
    """File system of a URL, and the folder in it. Credentials are fsspec's business, and never in a URL."""
    scheme, _, rest = unicodedata.normalize("NFKC", url).partition("://")
    if re.search(":.*@", rest) and scheme not in ("file", "local"):
        raise InputError("a URL with a password is refused; put the password in fsspec's configuration")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InputError(f"the folder's URL cannot be read ({error})") from None
    if "://" not in url or parts.scheme in ("file", "local"):
        path = Path(os.path.expanduser(url.partition("://")[2] if "://" in url else url)).absolute()  # noqa: PTH111
        return fsspec.filesystem("file", skip_instance_cache=True), path.as_posix()
    if parts.query or parts.fragment:
        raise InputError(f"{parts.scheme}://{parts.hostname}: give a URL without '?' and '#'")
    try:
        if parts.scheme in ("webdav+https", "webdav+http"):
            given, base = fsspec.config.conf.get("webdav", {}).get("auth"), url.removeprefix("webdav+")
            # JSON has no tuples, and httpx takes no list.
            auth = {"auth": tuple(given)} if isinstance(given, list) else {}
            return fsspec.filesystem("webdav", base_url=base, skip_instance_cache=True, **auth), ""
        if parts.scheme in ("sftp", "ssh"):
            how = _known_hosts() | {"username": parts.username, "port": parts.port or 22, "skip_instance_cache": True}
            return fsspec.filesystem("sftp", host=parts.hostname, **how), parts.path.rstrip("/")
        fs = fsspec.filesystem(parts.scheme, skip_instance_cache=True, use_listings_cache=False)
    except ImportError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0], "study")
        raise InputError(f"{parts.scheme}:// needs an extra: pip install 'dkpca[{extra}]'") from error
    except Exception as error:  # of hundreds of classes
        where = f"{parts.scheme}://{parts.hostname}"
        raise StorageError(f"{where}: cannot be reached ({printable(str(error))})") from error
    return fs, str(fs._strip_protocol(url)).rstrip("/")


def _known_hosts() -> dict[str, Any]:
    """Accept the host keys of the user's known_hosts only, unless fsspec's configuration says otherwise."""
    if "host_key_policy" in fsspec.config.conf.get("sftp", {}):
        return {}
    import paramiko

    class Known(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
        def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
            path = Path.home() / ".ssh" / "known_hosts"
            known = paramiko.HostKeys(str(path)) if path.exists() else paramiko.HostKeys()
            if not known.check(hostname, key):
                raise paramiko.SSHException(
                    f"the {key.get_name()} key of {hostname} is not in {path}; add it with 'ssh-keyscan'"
                )

    return {"host_key_policy": Known()}
