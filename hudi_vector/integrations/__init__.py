"""Stores of LangChain, Haystack and LlamaIndex over Hudi tables, and the table of documents under them."""
