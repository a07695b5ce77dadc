"""PPTX files: a heading for each slide, with its text, tables, charts and notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from pptx.enum.shapes import PP_PLACEHOLDER
from pptx.package import Package

from vikingd.ingest.formats.document import (
    Document,
    Failed,
    Pages,
    clean,
    counted,
    escaped,
    heading,
    lost_parts,
    numbers,
    table,
    title_of,
)
from vikingd.ingest.formats.drawings import chart_rows, diagram_texts
from vikingd.ingest.formats.hypertext import hidden_parts
from vikingd.ingest.formats.zips import BROKEN, checked, stated, xml

_MAX_NESTED = 32
_TINY = 200  # hundredths of a point of a font that nobody reads
_COMMENT = re.compile(rb"<(?:p|p188):cm\b")
_DIAGRAM = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
_TEXT = "{http://schemas.openxmlformats.org/drawingml/2006/main}t"
_RELATED = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}dm"
# Placeholders with the same text on each slide.
_REPEATED = {PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.SLIDE_NUMBER, PP_PLACEHOLDER.DATE}


def read(file: BinaryIO) -> Document:
    """Read a PPTX file.

    Raises:
        Failed: it is encrypted or damaged, or it has no text.
    """
    with checked(file) as archive:
        title, time = stated(archive)
        comments = sum(
            len(_COMMENT.findall(archive.read(name)))
            for name in archive.namelist()
            if name.startswith("ppt/comments/")
        )
    file.seek(0)
    try:
        # `pptx.Presentation` refuses slide shows, which differ in one attribute.
        slides = list(Package.open(file).main_document_part.presentation.slides)
    except BROKEN as error:
        raise Failed(f"is damaged: {error}") from None
    except (KeyError, ValueError, AttributeError, SyntaxError) as error:
        raise Failed(f"is damaged: {error}") from None
    pages = Pages()
    failed: list[tuple[str, str]] = []
    has_text = False
    hidden = []
    unseen = 0
    for number, slide in enumerate(slides, start=1):
        if slide.element.get("show") in ("0", "false"):
            hidden.append(number)
            continue
        first = ""
        blocks: list[str] = []
        try:
            unseen += _drop_hidden(slide.shapes)
            first = _title(slide)
            blocks.extend(_blocks(slide.shapes, slide.shapes.title, 0))
            frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
            if frame and (notes := clean(frame.text).strip()):
                blocks.append(f"Notes: {escaped(notes)}")
        except Exception as error:  # The parser has no class for the errors of a damaged slide.
            failed.append((f"slide {number}", f"{type(error).__name__}: {error}"))
        has_text = has_text or bool(first or blocks)
        title = title or title_of(first)
        pages.add(heading(2, f"Slide {number}: {first}" if first else f"Slide {number}"))
        for block in blocks:
            pages.add(block)
    if not has_text:
        raise Failed("has no text" if not failed else f"is damaged: {failed[0][1]}")
    lost = lost_parts(failed)
    if hidden:
        are = f"slide {hidden[0]} is" if len(hidden) == 1 else f"slides {numbers(hidden)} are"
        lost.append(f"{are} hidden and left out")
    lost += [*hidden_parts(unseen), *counted(comments, "comment")]
    metadata: dict[str, str | int] = {"format": "pptx", "slides": len(slides)}
    return Document(pages.text(), title, metadata, time, lost)


def _drop_hidden(shapes: Any) -> int:
    """Remove hidden shapes, groups and tiny text from a slide; return the number with text."""
    count = 0
    for shape in shapes._spTree.xpath(".//*[*/p:cNvPr[@hidden='1' or @hidden='true']]"):
        count += any(text.strip() for text in shape.itertext(_TEXT))
        shape.getparent().remove(shape)
    for run in shapes._spTree.xpath(f".//a:r[a:rPr/@sz <= {_TINY}]"):
        count += any(text.strip() for text in run.itertext(_TEXT))
        run.getparent().remove(run)
    return count


def _title(slide: Any) -> str:
    shape = slide.shapes.title
    return " ".join(clean(shape.text_frame.text).split()) if shape is not None else ""


def _blocks(shapes: Iterable[Any], title: Any, depth: int) -> Iterator[str]:
    """Yield the Markdown of shapes in their order, without the title of the slide."""
    if depth > _MAX_NESTED:
        raise Failed("groups are nested too deeply")
    for shape in shapes:
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if shape.is_placeholder and shape.placeholder_format.type in _REPEATED:
            continue
        if hasattr(shape, "shapes"):
            yield from _blocks(shape.shapes, title, depth + 1)
        elif shape.has_text_frame:
            yield _text(shape)
        elif getattr(shape, "has_table", False):
            yield table(_grid(shape.table))
        elif getattr(shape, "has_chart", False):
            yield from _chart(shape.chart)
        elif shape._element.tag.endswith("graphicFrame"):
            yield _diagram(shape)
        elif shape._element.tag.endswith("}pic"):  # the text that stands for a picture
            yield escaped(clean(shape._element.nvPicPr.cNvPr.get("descr") or "").strip())


def _grid(shape_table: Any) -> list[list[str]]:
    """Return the texts of a table.

    The text of a cell over several rows is repeated in each of them.
    """
    rows: list[list[str]] = []
    for row in shape_table.rows:
        texts = []
        for column, cell in enumerate(row.cells):
            is_below = cell._tc.vMerge and rows and column < len(rows[-1])
            texts.append(rows[-1][column] if is_below else cell.text)
        rows.append(texts)
    return rows


def _text(shape: Any) -> str:
    """Return the paragraphs of a shape: a list in the body of a slide, else as they are."""
    paragraphs = [(p.level, clean(p.text).strip()) for p in shape.text_frame.paragraphs]
    paragraphs = [(level, text) for level, text in paragraphs if text]
    is_list = len(paragraphs) > 1 and shape.is_placeholder
    if not is_list and not any(level for level, _ in paragraphs):
        return "\n\n".join(escaped(text) for _, text in paragraphs)
    lines, before = [], -1
    for level, text in paragraphs:
        before = min(level, before + 1)
        lines.append(f"{'  ' * before}- {' '.join(text.split())}")
    return "\n".join(lines)


def _chart(chart: Any) -> Iterator[str]:
    if chart.has_title and chart.chart_title.has_text_frame:
        yield escaped(clean(chart.chart_title.text_frame.text))
    try:
        plots = list(chart.plots)
    except ValueError:  # the library does not know the type of the chart
        yield table(chart_rows(chart._chartSpace))
        return
    for plot in plots:
        series = list(plot.series)
        rows = [["", *(str(one.name) for one in series)]]
        values = [list(one.values) for one in series]
        for i, category in enumerate(plot.categories):
            cells = (column[i] if i < len(column) else None for column in values)
            rows.append([str(category), *("" if cell is None else f"{cell:g}" for cell in cells)])
        yield table(rows)


def _diagram(shape: Any) -> str:
    """Return the texts of a SmartArt diagram, which is stored in another part of the file."""
    for ids in shape._element.iter(f"{{{_DIAGRAM}}}relIds"):
        root = xml(shape.part.related_part(ids.get(_RELATED)).blob)
        return "\n".join(f"- {clean(text)}" for text in diagram_texts(root))
    return ""
