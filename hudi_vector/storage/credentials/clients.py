"""Translation of Hadoop's storage settings for pyarrow, fsspec and hudi-rs.

A setting that the storage cannot be opened without, and that has no counterpart, is refused and never dropped.
"""

from __future__ import annotations

from typing import Any

from hudi_vector.errors import UnsupportedTableError
from hudi_vector.storage.credentials.s3 import s3_arguments
from hudi_vector.storage.settings import StorageOptions

__all__ = [
    "azure_arguments",
    "gcs_arguments",
    "hudi_rs_options",
    "lance_options",
]

_AZURE_CLIENT = "fs.azure.account.oauth2.client."


def gcs_arguments(options: StorageOptions) -> dict[str, Any]:
    """Return the arguments of ``gcsfs.GCSFileSystem``; without a key file, gcsfs finds Google's default credentials."""
    keyfile = options.get("fs.gs.auth.service.account.json.keyfile")
    anonymous = (options.get("fs.gs.auth.type") or "").upper() == "UNAUTHENTICATED"
    arguments = {
        "token": "anon" if anonymous else keyfile,
        "project": options.get("fs.gs.project.id"),
        "endpoint_url": options.get("fs.gs.storage.root.url"),
    }
    return {key: value for key, value in arguments.items() if value is not None}


def azure_arguments(host: str, options: StorageOptions) -> dict[str, Any]:
    """Return the arguments of ``pyarrow.fs.AzureFileSystem``; without credentials, pyarrow finds Azure's default ones.

    The host is that of the account (``name.dfs.core.windows.net``). A setting of the account
    (``fs.azure.account.key.{host}``) overrides that of all accounts. Raises UnsupportedTableError if the account is not
    in Azure's public cloud.
    """
    account, _, service = host.partition(".")

    def setting(key: str) -> str | None:
        return options.get(f"{key}.{host}") or options.get(key)

    if service not in ("dfs.core.windows.net", "blob.core.windows.net"):
        raise UnsupportedTableError(
            f"'{host}' is no storage account of Azure, such as 'name.dfs.core.windows.net'; let Spark read it"
        )
    endpoint = setting(_AZURE_CLIENT + "endpoint")
    arguments = {
        "account_name": account,
        "account_key": setting("fs.azure.account.key"),
        "sas_token": setting("fs.azure.sas.fixed.token"),
        "client_id": setting(_AZURE_CLIENT + "id"),
        "client_secret": setting(_AZURE_CLIENT + "secret"),
        # In Hadoop the tenant is part of https://login.microsoftonline.com/{tenant}/oauth2/token.
        "tenant_id": endpoint.split("/")[3] if endpoint and endpoint.count("/") >= 4 else None,
    }
    return {key: value for key, value in arguments.items() if value is not None}


def hudi_rs_options(scheme: str, options: StorageOptions) -> dict[str, str]:
    """Return the options of ``hudi.HudiTable``, from the settings of one place (`StorageOptions.at`).

    The scheme is one that `hudi_vector.storage.scheme_of` returns; only ``s3`` has options. Raises
    UnsupportedTableError if a setting has no counterpart.
    """
    if scheme != "s3":
        return {}
    arguments = s3_arguments(options)
    for argument, key in (("role_arn", "fs.s3a.assumed.role.arn"), ("proxy_options", "fs.s3a.proxy.host")):
        if argument in arguments:
            raise UnsupportedTableError(
                f"{key} = '{options.get(key)}' is known to neither hudi-rs nor Lance; let Spark read it"
            )
    endpoint = arguments.get("endpoint_override")
    mapped = {
        "aws_access_key_id": arguments.get("access_key"),
        "aws_secret_access_key": arguments.get("secret_key"),
        "aws_session_token": arguments.get("session_token"),
        "aws_region": arguments.get("region"),
        "aws_endpoint": f"{arguments['scheme']}://{endpoint}" if endpoint else None,
        "aws_allow_http": "true" if arguments["scheme"] == "http" else None,
        "aws_skip_signature": "true" if arguments.get("anonymous") else None,
    }
    return {key: str(value) for key, value in mapped.items() if value is not None}


def lance_options(scheme: str, options: StorageOptions) -> dict[str, str] | None:
    """Return the options of pylance and deltalake, or None if they need none."""
    return hudi_rs_options(scheme, options) or None
