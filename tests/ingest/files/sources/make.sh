#!/bin/sh
# Make the files of this directory anew: make.sh EMPTY-DIRECTORY
# Needs pandoc, LibreOffice (writer, calc, impress), Chromium, qpdf, Noto CJK fonts, and
# Python with pypdfium2 and Pillow.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
office() { soffice -env:UserInstallation="file://$PWD/profile" --headless "$@" >/dev/null; }
for lang in en zh; do
    pandoc -s --toc "$here/report-$lang.md" -o "report-$lang.epub" --epub-chapter-level=1
    pandoc -s "$here/report-$lang.md" -o "report-$lang.html"
    pandoc -s "$here/report-$lang.md" -o "pandoc-$lang.docx"
    pandoc -s "$here/report-$lang.md" -o "report-$lang.odt"
    office --convert-to docx "report-$lang.odt"
    pandoc -s "$here/slides-$lang.md" -o "pandoc-$lang.pptx" --slide-level=1
    office --convert-to odp "pandoc-$lang.pptx"
    mv "pandoc-$lang.odp" "slides-$lang.odp"
    office --convert-to pptx "slides-$lang.odp"
    # One font for all Chinese text keeps the file small.
    style='h1, h2, p, li, td, th { font-family: "Noto Sans CJK SC"; font-weight: normal }'
    pandoc -s "$here/report-$lang.md" | sed \
        -e 's/<h1 id=/<h1 style="page-break-before: always" id=/' \
        -e "/lang=\"zh/,\$s/<\/head>/<style>$style<\/style><\/head>/" >paged.html
    chromium --headless --no-sandbox --disable-gpu --generate-pdf-document-outline \
        --no-pdf-header-footer --print-to-pdf="chromium-$lang.pdf" paged.html 2>/dev/null
    office --convert-to odt:writer8 --infilter='HTML (StarWriter)' paged.html
    office --convert-to \
        'pdf:writer_pdf_Export:{"ExportBookmarks":{"type":"boolean","value":"true"}}' paged.odt
    mv paged.pdf "report-$lang.pdf"
done
python3 "$here/table.py"
for lang in en zh; do office --convert-to xlsx "ledger-$lang.fods"; done
python3 "$here/scan.py" report-en.pdf scan.pdf
qpdf --empty --pages report-en.pdf 1-2 scan.pdf 1 report-en.pdf 4 -- half-scan.pdf
qpdf --encrypt secret secret 256 -- report-en.pdf locked.pdf
rm -rf profile paged.* chromium-zh.pdf ./*.odt ./*.odp ./*.fods
