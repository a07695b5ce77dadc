"""Write the second page of a PDF as a picture, as a scanner does: scan.py FROM TO."""

import sys

import pypdfium2

page = pypdfium2.PdfDocument(sys.argv[1])[1]
page.render(scale=1, grayscale=True).to_pil().save(sys.argv[2])
