"""The prior centroids of the scripts: mean vectors of everyday sentences.

A store with few texts in a script has no reliable centroid of its own. The prior replaces it. The
weight of the prior falls with each text.
"""

from __future__ import annotations

import numpy as np

from vikingd.domain.text import ARABIC, CYRILLIC, HAN, HANGUL, KANA, LATIN, SCRIPTS
from vikingd.models.embed.provider import Provider, Vectors

PRIOR_SENTENCES: dict[int, tuple[str, ...]] = {
    LATIN: (
        "The user prefers short answers without a long introduction.",
        "Remember that the meeting was moved from Tuesday to Thursday afternoon.",
        "Open the settings, choose your language and save the changes.",
        "She lives with her family in a small town near the coast.",
        "This function returns a list of all entries that match the pattern.",
        "Run the tests before you commit, and describe what you have changed.",
        "We talked about the book that he finished reading last week.",
        "The request fails with an error when the token has expired.",
        "To install the package, download the archive and follow the steps below.",
        "My brother started a new job and likes his colleagues very much.",
        "Every order is delivered within three working days.",
        "Use this skill to turn a table of numbers into a clear chart.",
        "Der Benutzer möchte die Berichte jeden Montag per E-Mail bekommen.",
        "Die Konfiguration liegt in einer Datei, die beim Start gelesen wird.",
        "Elle préfère voyager en train et réserve toujours une place près de la fenêtre.",
        "El usuario pidió un resumen del documento y una lista de los próximos pasos.",
    ),
    HAN: (
        "用户喜欢简短的回答，不需要很长的开场白。",
        "请记住，会议从星期二改到了星期四下午。",
        "打开设置，选择语言，然后保存更改。",
        "她和家人住在海边的一个小城里。",
        "这个函数返回所有符合条件的记录。",
        "提交之前先运行测试，并说明修改了什么。",
        "我们聊了他上周刚读完的那本书。",
        "令牌过期以后，请求会返回错误。",
        "安装时先下载压缩包，再按照下面的步骤操作。",
        "我弟弟换了新工作，和同事们相处得很好。",
        "所有订单都会在三个工作日内送达。",
        "这个技能可以把数字表格变成清楚的图表。",
        "当事人应当按照合同的约定履行自己的义务。",
        "配置文件在程序启动时读取，修改后需要重新启动。",
        "周末天气不错，大家打算一起去爬山。",
        "项目的第一个版本计划在下个月发布。",
    ),
    KANA: (
        "ユーザーは短くて分かりやすい答えを好みます。",
        "会議は火曜日から木曜日の午後に変わりました。",
        "設定を開いて言語を選び、変更を保存してください。",
        "この関数は条件に合うすべての項目を返します。",
        "彼女は家族と一緒に海の近くの町に住んでいます。",
        "コミットする前にテストを実行してください。",
        "先週読み終わった本について話しました。",
        "パッケージをダウンロードして、次の手順でインストールします。",
    ),
    HANGUL: (
        "사용자는 짧고 분명한 대답을 좋아합니다.",
        "회의가 화요일에서 목요일 오후로 바뀌었습니다.",
        "설정을 열고 언어를 선택한 다음 변경 사항을 저장하세요.",
        "이 함수는 조건에 맞는 모든 항목을 반환합니다.",
        "그녀는 가족과 함께 바닷가 근처의 작은 도시에 살고 있습니다.",
        "커밋하기 전에 테스트를 실행하세요.",
        "우리는 지난주에 다 읽은 책에 대해 이야기했습니다.",
        "패키지를 내려받고 아래 순서대로 설치하세요.",
    ),
    CYRILLIC: (
        "Пользователь предпочитает короткие и ясные ответы.",
        "Встречу перенесли со вторника на четверг после обеда.",
        "Откройте настройки, выберите язык и сохраните изменения.",
        "Эта функция возвращает все записи, которые подходят под условие.",
        "Она живёт с семьёй в небольшом городе у моря.",
        "Перед отправкой изменений запустите тесты.",
        "Мы говорили о книге, которую он дочитал на прошлой неделе.",
        "Скачайте пакет и установите его, следуя шагам ниже.",
    ),
    ARABIC: (
        "يفضل المستخدم الإجابات القصيرة والواضحة.",
        "تم نقل الاجتماع من يوم الثلاثاء إلى بعد ظهر يوم الخميس.",
        "افتح الإعدادات واختر اللغة ثم احفظ التغييرات.",
        "تعيد هذه الدالة جميع العناصر التي تطابق الشرط.",
        "تعيش مع عائلتها في مدينة صغيرة قرب البحر.",
        "شغل الاختبارات قبل إرسال التعديلات.",
        "تحدثنا عن الكتاب الذي انتهى من قراءته الأسبوع الماضي.",
        "قم بتنزيل الحزمة وثبتها حسب الخطوات التالية.",
    ),
}


def prior_means(provider: Provider) -> Vectors:
    """Return the mean document vector of each script, (len(SCRIPTS), dimension), not normalized.

    A script without sentences has the mean of all sentences.

    Raises:
        EmbedderFailed: the provider can't embed them.
    """
    scripts = [script for script, group in PRIOR_SENTENCES.items() for _ in group]
    vectors = provider.embed_documents([s for group in PRIOR_SENTENCES.values() for s in group])
    means = np.tile(vectors.mean(axis=0), (len(SCRIPTS), 1))
    for script in PRIOR_SENTENCES:
        means[script] = vectors[np.array(scripts) == script].mean(axis=0)
    return np.asarray(means, dtype=np.float32)
