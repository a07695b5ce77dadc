"""Names of files that hold secrets, such as `id_rsa` and `.netrc`."""

from __future__ import annotations

import re

# ".env.local" and ".env.production", but not ".env.example".
_ENVIRONMENT = re.compile(r"\.env(?:\.[\w.-]+)?")
_MODEL = re.compile(r"(?:.*[._-])?(?:examples?|samples?|templates?|dist|tpl|defaults?)(?:[._-].*)?")
_ALWAYS = re.compile(
    r"(?P<key>id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?)"
    r"|(?P<store>.+\.(?:p12|pfx|jks|keystore|kdbx|kdb))"
    r"|(?P<passwords>[._]netrc|\.git-credentials|\.pgpass|\.?htpasswd)"
)
# "server.key", "prod.tfvars", ".npmrc", "credentials.json".
_STORE = re.compile(
    r".+\.(?:pem|key|p8|ppk|ovpn|tfstate|tfvars|env|kubeconfig)|env|\.envrc|kubeconfig"
    r"|\.(?:npmrc|pypirc|yarnrc|yarnrc\.yml|dockercfg|dockerconfigjson|s3cfg|boto)"
    r"|(?:.+[._-])?(?:credentials?|secrets?|client[_-]secrets?|service[_-]?account[\w-]*)"
    r"(?:\.(?:ya?ml|json|toml|ini|cfg|conf|properties|env|enc))?"
)


def always_secret(name: str) -> str:
    """Return the kind of a file that is never read, by its name; "" for any other file."""
    low = name.lower()
    if _ENVIRONMENT.fullmatch(low):
        return "" if _MODEL.fullmatch(low[1:]) else "environment file"
    found = _ALWAYS.fullmatch(low)
    if found is None:
        return ""
    return "private key" if found["key"] else "key store" if found["store"] else "passwords"


def is_secret_store(name: str) -> bool:
    """Return True for a file that is left out as a whole if it contains any secret."""
    low = name.lower()
    return _STORE.fullmatch(low) is not None and not _MODEL.fullmatch(low)


# "config.yaml", "app.ini", "Dockerfile", ".bashrc".
_CONFIGURATION = re.compile(
    r".+\.(?:ya?ml|toml|ini|cfg|conf|config|cnf|properties|env|tfvars|hcl|tf|sh|bash|zsh|fish"
    r"|example|sample|template|dist|tpl|local|csv|tsv|log)|(?:.*[._-])?env(?:[._-].*)?"
    r"|(?:.*[._-])?dockerfile(?:[._-].*)?|makefile|procfile|vagrantfile|\.[\w-]+rc"
)


def is_configuration(name: str) -> bool:
    """Return True if a file is a configuration file by its name, such as "config.ini".

    An unquoted value in it is a string, not an expression of a programming language.
    """
    return _CONFIGURATION.fullmatch(name.lower()) is not None


def is_service_account(text: str) -> bool:
    """Return True for the JSON key of a service account of Google."""
    return text.lstrip()[:1] == "{" and '"service_account"' in text and '"private_key"' in text
