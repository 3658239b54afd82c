"""Asks a broker for the document of its API, and whether that is OpenAPI.

Environment and steps as README.md beside this says.
"""

import json
import os
import urllib.request

from openapi_spec_validator import validate

with urllib.request.urlopen(f"http://{os.environ['HTTP']}/api/v1/openapi.json") as answer:
    document = json.load(answer)
assert document["openapi"].startswith("3.1."), document["openapi"]
assert len(document["paths"]) > 20, len(document["paths"])
validate(document)
print("document")
