"""Write the two workbooks as flat OpenDocument files."""

from pathlib import Path

HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
 xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0"
 xmlns:number="urn:oasis:names:tc:opendocument:xmlns:datastyle:1.0"
 xmlns:of="urn:oasis:names:tc:opendocument:xmlns:of:1.2"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"
 xmlns:dc="http://purl.org/dc/elements/1.1/" office:version="1.3"
 office:mimetype="application/vnd.oasis.opendocument.spreadsheet">
<office:meta><dc:title>{title}</dc:title></office:meta>
<office:automatic-styles>
<number:date-style style:name="N1"><number:year number:style="long"/><number:text>-</number:text>
<number:month number:style="long"/><number:text>-</number:text><number:day number:style="long"/>
</number:date-style>
<number:percentage-style style:name="N2"><number:number number:decimal-places="1"/>
<number:text>%</number:text></number:percentage-style>
<style:style style:name="date" style:family="table-cell" style:data-style-name="N1"/>
<style:style style:name="share" style:family="table-cell" style:data-style-name="N2"/>
</office:automatic-styles>
<office:body><office:spreadsheet>
"""
TAIL = "</office:spreadsheet></office:body></office:document>\n"
BOOKS = {
    "ledger-en": (
        "The Ledger of Norwick",
        {
            "Ships": [
                ["Name", "Length", "Arrival"],
                ["Albatross", 84.5, "2026-03-02"],
                ["Grey Heron", 120, "2026-03-09"],
            ],
            "Fuel": [
                ["Month", "Litres", "Share"],
                ["March", 45200, "53.1%"],
                ["April", 39875.25, "46.9%"],
                ["Both", "="],
            ],
        },
    ),
    "ledger-zh": (
        "诺威克账簿",
        {
            "船舶": [
                ["船名", "长度", "到达"],
                ["信天翁号", 84.5, "2026-03-02"],
                ["苍鹭号", 120, "2026-03-09"],
            ],
            "燃料": [
                ["月份", "升", "份额"],
                ["三月", 45200, "53.1%"],
                ["四月", 39875.25, "46.9%"],
                ["合计", "="],
            ],
        },
    ),
}


def cell(value: object) -> str:
    """Return a cell as XML; "=" is the sum of the two cells above."""
    if value == "=":
        of = 'table:formula="of:=SUM([.B2:.B3])" office:value-type="float"'
        return f"<table:table-cell {of}/>"
    if isinstance(value, int | float):
        return f'<table:table-cell office:value-type="float" office:value="{value}"/>'
    if str(value)[:4].isdigit():
        of = f'office:value-type="date" office:date-value="{value}"'
        return f'<table:table-cell table:style-name="date" {of}/>'
    if str(value).endswith("%"):
        of = f'office:value-type="percentage" office:value="{float(str(value)[:-1]) / 100}"'
        return f'<table:table-cell table:style-name="share" {of}/>'
    return (
        f'<table:table-cell office:value-type="string"><text:p>{value}</text:p></table:table-cell>'
    )


for name, (title, sheets) in BOOKS.items():
    text = HEAD.format(title=title)
    for sheet, rows in sheets.items():
        text += f'<table:table table:name="{sheet}">'
        for row in rows:
            text += f"<table:table-row>{''.join(map(cell, row))}</table:table-row>"
        text += "</table:table>"
    Path(f"{name}.fods").write_text(text + TAIL)
