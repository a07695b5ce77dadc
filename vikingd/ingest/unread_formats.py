"""Formats that an import does not read, with what a user can do."""

from __future__ import annotations

from vikingd.ingest.file_syntax import ending

_BY_PATH = (".zip", ".tar", ".tgz", ".tbz2", ".txz")
_PACKED = (*_BY_PATH, ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".lz", ".cab", ".iso", ".dmg")
_COMPRESSED_TAR = (".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")
_INSTEAD = {
    "DOCX": ".doc .dot .docm .wps .wpd .pages .fodt .hwp .hwpx",
    "XLSX": ".xls .xlt .xlsb .xlsm .numbers .ods .fods .et",
    "PPTX": ".ppt .pps .pptm .key .odp .fodp .dps",
    "PDF": ".odg .vsd .vsdx .pub .xps .djvu .ps",
    "EPUB": ".mobi .azw .azw3 .fb2 .lit",
    "EML": ".msg .pst",
}
_REMEDY = {end: to for to, ends in _INSTEAD.items() for end in ends.split()}
_RTF = b"{\\rtf"


def advice(name: str, head: bytes) -> str:
    """Return the reason why a file with this name and beginning is no text, with a remedy.

    The reason is to be put after the file's name; it is "" if none is known.
    """
    if is_rtf(head):
        return "is RTF: give it the suffix .rtf"
    lower, end = name.lower(), ending(name)
    if lower.endswith((*_BY_PATH, *_COMPRESSED_TAR)):
        return "is an archive within the directory: import it by its own path, or unpack it"
    if end in _PACKED:
        return "is an archive: unpack it"
    if end in _REMEDY:
        return f"is in a format that is not read: save it as {_REMEDY[end]}"
    return ""


def is_rtf(data: bytes) -> bool:
    """Return True for the bytes of an RTF file, which are markup and not readable text."""
    return data.startswith(_RTF)
