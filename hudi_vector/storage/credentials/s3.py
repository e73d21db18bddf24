"""Translation of Hadoop's S3 settings for pyarrow.

Settings of credentials, roles and encryption that have no counterpart in pyarrow are refused, never dropped. A bucket
may have separate settings (``fs.s3a.bucket.{bucket}.…``). Credentials come from the first provider in
``fs.s3a.aws.credentials.provider`` that has some, as in Hadoop.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hudi_vector.errors import InvalidOptionError, UnsupportedTableError
from hudi_vector.storage.settings import S3A, StorageOptions

__all__ = ["has_profile", "s3_arguments"]

_PROVIDERS = S3A + "aws.credentials.provider"
_ROLE = S3A + "assumed.role."
_STORES = (S3A + "security.credential.provider.path", "hadoop.security.credential.provider.path")
_CIPHERS = (S3A + "encryption.algorithm", S3A + "server-side-encryption-algorithm")

_DURATION = re.compile(r"(\d{1,9})(|ms|s|m|h)", re.ASCII)
_UNITS = {"": 0.001, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

Credentials = dict[str, Any]


def s3_arguments(options: StorageOptions) -> dict[str, Any]:
    """Return the arguments of ``pyarrow.fs.S3FileSystem`` for the settings of one bucket.

    Raises UnsupportedTableError if a setting has no counterpart in pyarrow, so that only Spark can open the bucket.
    """
    for key in _CIPHERS:
        if (options.get(key) or "").upper().startswith(("SSE-C", "CSE-")):
            raise _unsaid(key, options.get(key), "objects are encrypted with a key that only Hadoop is given")
    endpoint = options.get(S3A + "endpoint")
    ssl = (options.get(S3A + "connection.ssl.enabled") or "true").lower() == "true"
    scheme = "https" if ssl else "http"
    if endpoint and "://" in endpoint:
        scheme, endpoint = endpoint.split("://", 1)
    arguments: dict[str, Any] = {
        **_credentials(options),
        "region": options.get(S3A + "endpoint.region") or ("us-east-1" if endpoint else None),
        "endpoint_override": endpoint,
        "scheme": scheme,
        "proxy_options": _proxy(options),
        "connect_timeout": _seconds(options, S3A + "connection.establish.timeout"),
        "request_timeout": _seconds(options, S3A + "connection.request.timeout"),
    }
    if (options.get(S3A + "path.style.access") or "").lower() == "false":
        arguments["force_virtual_addressing"] = True
    return {key: value for key, value in arguments.items() if value is not None}


def _seconds(options: StorageOptions, key: str) -> float | None:
    """Return a duration in Hadoop's words (``5s``, ``200ms``, or milliseconds) in seconds; None where it is 0 or unset.

    Raises InvalidOptionError for another text.
    """
    text = (options.get(key) or "0").strip().lower()
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InvalidOptionError(f"{key} = {text!r} is not allowed: give a duration such as '5s', '200ms' or '1m'")
    return int(found[1]) * _UNITS[found[2]] or None


def _proxy(options: StorageOptions) -> dict[str, Any] | None:
    host = options.get(S3A + "proxy.host")
    if not host:
        return None
    is_secure = (options.get(S3A + "proxy.ssl.enabled") or "false").lower() == "true"
    given = {
        "scheme": "https" if is_secure else "http",
        "host": host,
        "port": int(options.get(S3A + "proxy.port") or (443 if is_secure else 80)),
        "username": options.get(S3A + "proxy.username"),
        "password": options.get(S3A + "proxy.password"),
    }
    return {key: value for key, value in given.items() if value is not None}


def _credentials(options: StorageOptions) -> Credentials:
    """Return the credentials of the first listed provider that has some; without a list, the access and secret keys."""
    keys = _keys(options, with_session=True)
    store = next((key for key in _STORES if options.get(key)), None)
    if store is not None and not keys:
        raise _unsaid(store, options.get(store), "keys that lie in Hadoop's credential files are for Java alone")
    listed = _names(options.get(_PROVIDERS))
    if not listed:
        return keys  # without keys, pyarrow looks where Hadoop does: in the environment, then on the machine
    for name in listed:
        found = _provider(name, options)
        if found is not None:
            return found
    raise _unsaid(_PROVIDERS, ", ".join(listed), "none of these providers has credentials here")


def _names(text: str | None) -> list[str]:
    """Return the simple class names of a comma-separated list of classes."""
    return [name.strip().rpartition(".")[2] for name in (text or "").split(",") if name.strip()]


def _provider(name: str, options: StorageOptions) -> Credentials | None:
    """Return a provider's credentials, or None if it has none and the next provider is to be asked."""
    known = _KNOWN.get(name)
    if known is None:
        raise _unsaid(_PROVIDERS, name, "pyarrow knows no such provider")
    return known(options)


def _keys(options: StorageOptions, *, with_session: bool) -> Credentials:
    access, secret = options.get(S3A + "access.key"), options.get(S3A + "secret.key")
    if not (access and secret):
        return {}
    token = options.get(S3A + "session.token") if with_session else None
    return {"access_key": access, "secret_key": secret, **({"session_token": token} if token else {})}


def _simple(options: StorageOptions) -> Credentials | None:
    return _keys(options, with_session=False) or None


def _temporary(options: StorageOptions) -> Credentials | None:
    found = _keys(options, with_session=True)
    return found if "session_token" in found else None


def _anonymous(_: StorageOptions) -> Credentials:
    return {"anonymous": True}


def _of_environment(_: StorageOptions) -> Credentials | None:
    access, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not (access and secret):
        return None
    token = os.environ.get("AWS_SESSION_TOKEN")
    return {"access_key": access, "secret_key": secret, **({"session_token": token} if token else {})}


def _default_chain(_: StorageOptions) -> Credentials:
    return {}


def has_profile() -> bool:
    """Return True if the credentials of a profile may be found on this machine."""
    file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    return "AWS_PROFILE" in os.environ or os.path.exists(os.path.expanduser(file))


_ASKED: Mapping[str, Callable[[], bool]] = {
    "the environment": lambda: "AWS_ACCESS_KEY_ID" in os.environ,
    "the profile": has_profile,
    "the web identity": lambda: "AWS_WEB_IDENTITY_TOKEN_FILE" in os.environ,
}
"""The sources that pyarrow tries, in this order, before the machine; each with a test if it has credentials."""


def _asked_at(name: str, options: StorageOptions) -> Credentials | None:  # noqa: ARG001 - one signature for all
    """Return no arguments if pyarrow finds the credentials of source `name` by itself, or None if that source has none.

    Raises UnsupportedTableError if a source that pyarrow tries earlier has credentials.
    """
    if name in _ASKED and not _ASKED[name]():
        return None
    for earlier, has_any in _ASKED.items():
        if earlier == name:
            break
        if has_any():
            raise _unsaid(_PROVIDERS, name, f"pyarrow would take the credentials of {earlier} before those of {name}")
    return {}


def _assumed_role(options: StorageOptions) -> Credentials:
    arn = options.get(_ROLE + "arn")
    if not arn:
        raise _unsaid(_PROVIDERS, "AssumedRoleCredentialProvider", f"{_ROLE}arn is not set")
    for key in ("policy", "sts.endpoint"):
        if options.get(_ROLE + key):
            raise _unsaid(_ROLE + key, options.get(_ROLE + key), "pyarrow assumes a role without it")
    # pyarrow assumes the role with credentials that it finds by itself; it accepts no keys for that.
    listed = _names(options.get(_ROLE + "credentials.provider"))
    for name in listed or ["SimpleAWSCredentialsProvider", "EnvironmentVariableCredentialsProvider"]:
        found = _provider(name, options)
        if found and found != _of_environment(options):
            raise _unsaid(_ROLE + "credentials.provider", name, "pyarrow takes no keys to assume a role with")
        if found is not None:
            break
    else:
        raise _unsaid(_ROLE + "credentials.provider", ", ".join(listed), "none of these has credentials here")
    given = {"session_name": _ROLE + "session.name", "external_id": _ROLE + "external.id"}
    named = {argument: options.get(key) for argument, key in given.items()}
    return {"role_arn": arn, **{argument: value for argument, value in named.items() if value}}


def _unsaid(key: str, value: str | None, why: str) -> UnsupportedTableError:
    return UnsupportedTableError(f"{key} = {value!r} has no counterpart outside of Hadoop: {why}; let Spark read it")


_KNOWN: Mapping[str, Callable[[StorageOptions], Credentials | None]] = {
    "SimpleAWSCredentialsProvider": _simple,
    "TemporaryAWSCredentialsProvider": _temporary,
    "AnonymousAWSCredentialsProvider": _anonymous,
    "AnonymousCredentialsProvider": _anonymous,
    "EnvironmentVariableCredentialsProvider": _of_environment,
    "DefaultAWSCredentialsProviderChain": _default_chain,
    "DefaultCredentialsProvider": _default_chain,
    "IAMInstanceCredentialsProvider": partial(_asked_at, "the machine"),
    "InstanceProfileCredentialsProvider": partial(_asked_at, "the machine"),
    "EC2ContainerCredentialsProviderWrapper": partial(_asked_at, "the machine"),
    "ContainerCredentialsProvider": partial(_asked_at, "the machine"),
    "ProfileCredentialsProvider": partial(_asked_at, "the profile"),
    "ProfileAWSCredentialsProvider": partial(_asked_at, "the profile"),
    "WebIdentityTokenCredentialsProvider": partial(_asked_at, "the web identity"),
    "WebIdentityTokenFileCredentialsProvider": partial(_asked_at, "the web identity"),
    "AssumedRoleCredentialProvider": _assumed_role,
}
