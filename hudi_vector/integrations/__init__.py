"""Stores of other libraries over Hudi tables: LangChain's and Haystack's, and the table of documents under them."""
