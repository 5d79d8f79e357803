//! What is kept and where a crawl resumes: journal, tables, WARC, CDXJ, crawl log.
