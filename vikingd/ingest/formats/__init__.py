"""PDF, HTML, DOCX, PPTX, XLSX and EPUB files as Markdown, read in a child process with limits."""
