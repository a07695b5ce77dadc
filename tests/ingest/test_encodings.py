"""Encodings of texts: labels as browsers take them, and detection that rather refuses than errs."""

from __future__ import annotations

import random

import pytest

from vikingd.ingest.formats.declared_encoding import stated_label
from vikingd.ingest.formats.encoding_labels import encoding_of
from vikingd.ingest.formats.encodings import decode

# A label, a codec that writes what browsers read under it, and a text.
LABELS = [
    ("Shift_JIS", "cp932", "株式会社㈱髙島屋①"),
    ("x-sjis", "cp932", "表示能力ソ～"),
    ("windows-31j", "cp932", "纊褜鍈"),
    ("euc-jp", "euc_jis_2004", "①㈱日本語"),
    ("ISO-2022-JP", "iso2022_jp", "日本語テキスト"),
    ("euc-kr", "cp949", "똠방각하 펲시"),
    ("ks_c_5601-1987", "cp949", "한국어 똠"),
    ("korean", "cp949", "대한민국"),
    ("big5", "big5hkscs", "香港嘅嘢"),
    ("Big5-HKSCS", "big5hkscs", "喺度啱啱"),
    ("cn-big5", "big5", "中文字元"),
    ("gb2312", "gbk", "镕基"),
    ("x-gbk", "gbk", "喆"),
    ("gb18030", "gb18030", "𠮷野家 ḿ"),
    ("us-ascii", "cp1252", "it’s 5 €"),
    ("iso-8859-1", "cp1252", "“naïve” — œuvre"),
    (" Latin1 ", "cp1252", "ß – …"),
    ("iso-8859-9", "cp1254", "İzmir “tırnak”"),
    ("latin5", "cp1254", "ğış"),
    ("tis-620", "cp874", "ภาษาไทย…"),
    ("iso-8859-11", "cp874", "สวัสดี"),
    ("iso-8859-2", "iso8859_2", "žluťoučký kůň"),
    ("latin2", "iso8859_2", "zażółć gęślą jaźń"),
    ("iso-8859-5", "iso8859_5", "Привет"),
    ("iso-8859-7", "iso8859_7", "Ελληνικά"),
    ("iso-8859-8-i", "iso8859_8", "שלום"),
    ("logical", "iso8859_8", "עברית"),
    ("iso-8859-15", "iso8859_15", "5 € œuf"),
    ("koi8-r", "koi8_r", "Съешь же ещё этих"),
    ("koi8-u", "koi8_u", "Ґанок її"),
    ("cp866", "cp866", "Файл"),
    ("windows-1251", "cp1251", "Привет"),
    ("x-cp1256", "cp1256", "مرحبا"),
    ("windows-1257", "cp1257", "šešėlis"),
    ("macintosh", "mac_roman", "naïve"),
    ("x-mac-cyrillic", "mac_cyrillic", "Привет"),
    ("utf8", "utf-8", "naïve 漢"),
]

# A text of about 60 characters, and the encodings in which a file may have it.
TEXTS = [
    ("防波堤和灯塔在去年的风暴以后都修好了，港口的费用从今年起每天增加十元，渔船除外。", "gb18030"),
    ("防波堤和燈塔在去年的風暴以後都修好了，港口的費用從今年起每天增加十元，漁船除外。", "big5"),
    (
        "昨年の嵐のあと、防波堤と灯台はすべて修理されました。港の料金は今年から上がります。",
        "cp932 euc_jp",
    ),
    ("지난해 폭풍 이후 방파제와 등대를 모두 수리했습니다. 항구 요금은 올해부터 오릅니다.", "cp949"),
    (
        "После прошлогодней бури волнорез и маяк отремонтированы, сборы порта растут.",
        "cp1251 koi8_r",
    ),
    ("Після торішньої бурі хвилеріз і маяк відремонтовано, збори порту зростають її.", "cp1251"),
    ("След миналогодишната буря вълноломът и фарът са ремонтирани, таксите растат.", "cp1251"),
    ("Après la tempête de l’année dernière, la jetée a été réparée à grands frais.", "cp1252"),
    ("Después de la tormenta del año pasado se reparó el muelle; también está el café.", "cp1252"),
    ("Nach dem Sturm im letzten Jahr wurde die Mauer für große Schiffe erhöht, schön.", "cp1252"),
    ("Efter förra årets storm är vågbrytaren lagad, och avgifterna ökar på måndag.", "cp1252"),
    ("A seguir à tempestade não há ligações; as obras do pontão já começaram também.", "cp1252"),
    ("بعد عاصفة العام الماضي تم إصلاح كاسر الأمواج والمنارة وارتفعت رسوم الميناء", "cp1256"),
    (
        "Po zeszłorocznej burzy falochron został naprawiony, a opłaty wzrosną także później.",
        "cp1250 iso8859_2",
    ),
    (
        "Po loňské bouři byl vlnolam opraven a přístavní poplatky se příští rok zvýší.",
        "cp1250 iso8859_2",
    ),
    (
        "A tavalyi vihar után a hullámtörőt megjavították, és a kikötői díjak is nőnek.",
        "cp1250 iso8859_2",
    ),
    ("หลังจากพายุเมื่อปีที่แล้ว เขื่อนกันคลื่นและประภาคารได้รับการซ่อมแซมแล้ว", "cp874"),
    ("Μετά την περσινή καταιγίδα ο κυματοθραύστης επισκευάστηκε και τα τέλη αυξάνονται.", "cp1253"),
    (
        "Geçen yılki fırtınadan sonra dalgakıran onarıldı; liman ücretleri de artıyor, değil mi?",
        "cp1254",
    ),
    ("אחרי הסערה של השנה שעברה תוקן שובר הגלים והאגרות של הנמל עולות השנה", "cp1255"),
]


@pytest.mark.parametrize(("label", "codec", "text"), LABELS)
def test_labels_are_those_of_browsers(label: str, codec: str, text: str) -> None:
    """A label stands for the encoding that browsers take for it, which is often a wider one."""
    found = decode(text.encode(codec), label=label)
    assert (found.text, found.wrong) == (text, 0)
    assert found.how in ("label", "utf-8")
    assert encoding_of(label) is not None


@pytest.mark.parametrize(
    ("page", "label"),
    [
        (b'<meta charset="x-sjis">', "x-sjis"),
        (b"<META CHARSET=big5 />", "big5"),
        (b"<meta http-equiv='Content-Type' content='text/html; charset=euc-kr'>", "euc-kr"),
        (b'<meta content="text/html;charset=koi8-r" http-equiv="content-type">', "koi8-r"),
        (b'<?xml version="1.0" encoding="ISO-8859-2"?><html>', "ISO-8859-2"),
        (b'<!-- <meta charset="big5"> --><meta charset="gbk">', "gbk"),
        (b'<meta name="d" content="charset=big5"><meta charset=gbk>', "gbk"),
        (b'<meta charset="no-such"><meta charset="gbk">', "gbk"),
        (b'<a title="<meta charset=big5>"><meta charset=gbk>', "gbk"),
        (b'<meta charset="utf-16">', "utf-8"),
        (b"<p>charset=big5</p>", None),
        (b'<meta name="viewport" content="width=device-width">', None),
        (b"<" * 20_000, None),
        (b"<a '" * 9_000, None),
    ],
)
def test_labels_are_found_where_browsers_look(page: bytes, label: str | None) -> None:
    """Only `meta` and the XML declaration state a label; an unknown one is passed over."""
    assert stated_label(page) == label


def test_a_mark_and_utf8_come_before_a_label() -> None:
    """A byte order mark decides; valid UTF-8 is UTF-8, but for a few bytes that may be chance."""
    assert decode("\ufeffnaïve".encode(), label="big5").how == "bom"
    assert decode("\ufeffПривет".encode("utf-16-be")).text == "Привет"
    assert decode("naïve café".encode(), label="iso-8859-1").text == "naïve café"
    assert decode(b"\xc4\xa3", label="gb2312").text == "模"  # U+0123 as UTF-8
    assert decode("防波堤和灯塔在去年的风暴".encode("gbk"), label="utf-8").encoding == "GB18030"


@pytest.mark.parametrize(("text", "codecs"), TEXTS)
def test_short_texts_without_a_label_are_detected(text: str, codecs: str) -> None:
    """A text of about 60 characters is read right, and its encoding is told."""
    for codec in codecs.split():
        found = decode(text.encode(codec))
        assert found.text == text, (codec, found.encoding)
        assert found.how == "detected"
        long = "\n".join(f"## {number}. Harbour\n\n{text}" for number in range(40))
        assert decode(long.encode(codec)).text == long


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text", ["One line.\nTwo.\n", "防波堤，灯塔。\n", "Привет, мир", "防波堤和灯塔。"]
)
def test_utf16_without_a_mark_is_known_by_its_shape(codec: str, text: str) -> None:
    """The zeros and the punctuation of UTF-16 tell the order of its bytes."""
    assert decode(text.encode(codec)).text == text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a\x81\xff", "its encoding is not certain: name it with --encoding"),
        ("Die Brücke wurde über den Fluß verlängert, schön".encode("cp850"), "not certain"),
        ("Після торішньої бурі хвилеріз і маяк відремонтовано".encode("iso8859_5"), "not certain"),
        (bytes(range(1, 256)) * 20, "not certain"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0", "is binary"),
        (b"a\0b\0\0", "is binary"),
        (
            "naïve “text” of a cut file — 防".encode()[:-1],
            "mend it, or read it with --encoding utf-8",
        ),
    ],
)
def test_uncertain_texts_are_refused(data: bytes, reason: str) -> None:
    """A refusal names the option that helps; a guess would put wrong words into the index."""
    with pytest.raises(ValueError, match=reason):
        decode(data)


def test_ascii_around_a_few_words_is_no_doubt() -> None:
    """A long list with one line of accented names is as certain as that line alone."""
    head = "Code Insee,Libellé Commune,Distribution gérée par un gestionnaire,Proximité"
    data = (head + "\n" + "01004,AMBERIEU EN BUGEY,,1,GD0153\n" * 5_000).encode("cp1252")
    assert decode(data).text.startswith(head)


def test_noise_is_no_text() -> None:
    """Random bytes are never taken for a text."""
    noise = random.Random(47)
    for size in (3, 20, 200, 2_000):
        for _ in range(10):
            with pytest.raises(ValueError, match=r"certain|binary|mend"):
                decode(b"\xff\xc0" + bytes(noise.randrange(1, 256) for _ in range(size)))


def test_the_user_may_name_the_encoding() -> None:
    """The named encoding holds for texts that are no UTF-8; wrong bytes are counted or refused."""
    data = "Die Brücke".encode("cp850")
    with pytest.raises(ValueError, match="unknown encoding 'cp850x'"):
        decode(data, assumed="cp850x")
    assert decode("naïve".encode(), assumed="windows-1252").text == "naïve"
    found = decode("İzmir".encode("cp1254"), assumed="iso-8859-9")
    assert (found.text, found.encoding, found.how) == ("İzmir", "windows-1254", "assumed")
    cut = ("防波堤" * 100).encode()[:-1]
    found = decode(cut, assumed="utf-8")
    assert (found.wrong, found.how) == (1, "assumed")
    with pytest.raises(ValueError, match="no EUC-JP either: name another --encoding"):
        decode("Die Brücke über die Öde".encode("cp1252"), assumed="euc-jp")
