"""Common words of several languages, and the characters of Chinese names.

A description by a model may use the words even if its material does not have them. They serve to
tell names from words that have a capital letter only because of their place, and to recognize a
language.
"""

from __future__ import annotations

from importlib.resources import files

from vikingd.domain.text import lazy


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


BEGINNINGS = _words(files(__package__).joinpath("common_words_en.txt").read_text("utf-8"))
"""English words that begin sentences and headings, and are no names."""

ACRONYMS = _words("api cli faq id ok os pdf todo ui url")

FUNCTION_WORDS = {
    "en": _words("the of and to in is that for with as are this by from be or it how on an what"),
    "de": _words(
        "der die das und ist nicht mit für von den ein eine werden wie wird auf zu dem im"
    ),
    "fr": _words("le la les des et est une pour dans du que avec sur par vos votre au ou ce un"),
    "es": _words("el la los las y es una para con que del por en su tu se cómo un o al"),
    "pt": _words("o a os as e é uma para com que do da em no na por seu um ou como não"),
    "it": _words("il la le gli e è una per con che del della di nel in da un i o come si"),
    "nl": _words("de het een en van is voor met op te dat die in zijn je naar of aan als niet"),
    "pl": _words("i w z na do się jest nie to że oraz jak dla lub od po są o przez"),
    "sv": _words("och att det som en på är för med till av den inte ett i om du eller"),
    "tr": _words("ve bir bu için ile da de olarak nasıl olan veya daha gibi sonra"),
}
"""The most frequent words by language."""

SURNAMES = (
    "赵刘陈吴郭郑韩冯董曹袁邓彭吕蒋蔡贾魏薛阎潘汪姜谭廖邹郝崔邱秦侯邵孟黎贺龚乔尹钱汤卢姚戴沈"
    "王李杨徐孙朱胡梁宋唐傅曾苏丁叶余杜夏钟"
)
"""Chinese surnames whose characters seldom have another meaning."""

COMMON_SURNAMES = "张周马林何高罗谢许任田范方石金陆孔白毛江史顾龙万段雷易常武文黄于程邢莫洪"
"""Chinese surnames whose characters also begin many other words."""

GIVEN = (
    "伟芳娜敏静丽强磊军洋勇艳杰娟涛明超秀霞平刚桂英华玉兰红建国文辉力梅鑫波斌宇浩凯健俊帆雪荣"
    "婷琳慧欣怡佳雨晨阳鹏飞龙峰志海燕萍莉玲倩颖璐瑶琪悦涵博轩子晓丹宁东林春生成然桐"
)
"""Characters of Chinese given names."""

PLACES = lazy(
    "北京|上海|天津|重庆|广州|深圳|杭州|南京|武汉|成都|西安|苏州|青岛|大连|厦门|香港|澳门|台湾|台北"
    "|广东|浙江|江苏|山东|河南|四川|湖北|湖南|福建|云南|新疆|西藏|中国|美国|英国|法国|德国|日本|韩国"
    "|印度|俄罗斯|加拿大|澳大利亚|新加坡|意大利|西班牙|巴西|欧洲|亚洲|非洲|东京|纽约|伦敦|巴黎|柏林"
)
