"""Routes of Starlette: health checks, metadata, schema, metrics, drift, OpenAPI document and start page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from gpupipe.serve.bodies import parse_json
from gpupipe.serve.drift_document import drift_document
from gpupipe.serve.inference import model_configuration, model_metadata
from gpupipe.serve.model_schema import describe_model
from gpupipe.serve.openapi import openapi_document
from gpupipe.serve.problems import RequestProblem
from gpupipe.serve.served_model import ServedModel
from gpupipe.version import __version__

if TYPE_CHECKING:
    from gpupipe.serve.application import Application

FOLDER = Path(__file__).parent / "page_files"

JSON = "application/json"
METRICS = "text/plain; version=0.0.4; charset=utf-8"
PLAIN_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "statistics")
INDEX = "/v2/repository/index"  # a POST, so the application reads its body


class Documents:
    """The router of an application."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._rendered: WeakKeyDictionary[ServedModel, dict[str, bytes]] = WeakKeyDictionary()
        model, version = "/v2/models/{name}", "/v2/models/{name}/versions/{version}"
        routes = {
            "/": self._page,
            "/schema": self._schema,
            "/openapi.json": self._openapi,
            "/metrics": self._metrics,
            "/drift": self._drift,
            "/v2": self._server,
            "/v2/health/live": self._live,
            "/v2/health/ready": self._ready,
            "/v2/models/stats": self._statistics,
            model: self._model,
            f"{model}/ready": self._model_ready,
            version: self._model,
            f"{version}/ready": self._model_ready,
            f"{model}/config": self._configuration,
            f"{version}/config": self._configuration,
            f"{model}/stats": self._statistics,
            f"{version}/stats": self._statistics,
        }
        self._router = Router(
            [Route(path, endpoint, methods=["GET"]) for path, endpoint in routes.items()], redirect_slashes=False
        )

    async def answer(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> int:
        """Answer a request and return its status.

        Raise RequestProblem if the path (status 404) or its method (405) is unknown.
        """
        status = 200

        async def send_and_note(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._router({**scope, "app": self}, receive, send_and_note)  # with "app", errors are raised
        except HTTPException as error:
            allow = [(b"allow", value.encode()) for name, value in (error.headers or {}).items() if name == "Allow"]
            if error.status_code == 405:
                raise RequestProblem("method_not_allowed", "expected the method GET", headers=allow) from None
            if scope["path"].startswith("/v2/repository/models/"):
                text = "requests cannot load or unload models; replace the model of the server, or send it SIGHUP"
                raise RequestProblem("not_found", text) from None
            text = "unknown path; predictions are POST /predict and POST /v2/models/NAME/infer, and / has a list"
            raise RequestProblem("not_found", text) from None
        return status

    def index(self, body: bytes) -> bytes:
        """Return the index of Triton's model repository: the served model."""
        found = parse_json(body) if body.strip() else {}
        if type(found) is not dict or type(found.get("ready", False)) is not bool:
            raise RequestProblem("invalid_request", 'expected an object with the optional boolean "ready"')
        model = self._application.model
        return orjson.dumps([{"name": model.name, "version": model.version, "state": "READY", "reason": ""}])

    def require_model(self, path: str) -> None:
        """Raise RequestProblem unless `path` is that of the served model, with or without its version."""
        model = self._application.model
        if path not in _paths(model.name, model.version):
            raise RequestProblem("not_found", "unknown model or version")

    def _document(self, name: str, build: Callable[[ServedModel], Any]) -> bytes:
        """Return a document of the model in use, rendered once."""
        model = self._application.model
        rendered = self._rendered.setdefault(model, {})
        if name not in rendered:
            rendered[name] = orjson.dumps(build(model), default=str)
        return rendered[name]

    async def _page(self, request: Request) -> Response:
        page = read_page()
        return Response(page.content, media_type="text/html; charset=utf-8", headers=page.headers)

    async def _schema(self, request: Request) -> Response:
        settings = self._application.settings
        return _json(self._document("schema", lambda model: describe_model(model, settings)))

    async def _openapi(self, request: Request) -> Response:
        has_token = self._application.has_token
        settings = self._application.settings
        return _json(self._document("openapi", lambda model: openapi_document(model, settings, has_token)))

    async def _metrics(self, request: Request) -> Response:
        recorder = self._application.slot.drift
        report = None if recorder is None else await recorder.report()
        return Response(self._application.metrics.render(report), media_type=METRICS, headers=PLAIN_HEADERS)

    async def _drift(self, request: Request) -> Response:
        settings, slot = self._application.settings, self._application.slot
        if slot.drift is None:
            what = "drift is off" if settings.drift == "off" else "the model has no reference of its training rows"
            raise RequestProblem("not_found", what)
        found = drift_document(slot.model, settings, await slot.drift.report())
        return _json(orjson.dumps(found))

    async def _server(self, request: Request) -> Response:
        return _json(orjson.dumps({"name": "gpupipe", "version": __version__, "extensions": EXTENSIONS}))

    async def _live(self, request: Request) -> Response:
        return _json(b'{"live":true}')

    async def _ready(self, request: Request) -> Response:
        if self._application.is_closing:
            raise RequestProblem("unavailable", "the server is shutting down")
        return _json(b'{"ready":true}')

    async def _model(self, request: Request) -> Response:
        self.require_model(request.scope["path"])
        return _json(self._document("metadata", model_metadata))

    async def _configuration(self, request: Request) -> Response:
        self.require_model(request.scope["path"].removesuffix("/config"))
        return _json(self._document("configuration", model_configuration))

    async def _statistics(self, request: Request) -> Response:
        if (path := request.scope["path"].removesuffix("/stats")) != "/v2/models":
            self.require_model(path)
        model = self._application.model
        found = {"name": model.name, "version": model.version, **self._application.metrics.statistics()}
        return _json(orjson.dumps({"model_stats": [found]}))

    async def _model_ready(self, request: Request) -> Response:
        self.require_model(request.scope["path"].removesuffix("/ready"))
        if self._application.is_closing:
            raise RequestProblem("unavailable", "the server is shutting down")
        model = self._application.model
        return _json(orjson.dumps({"name": model.name, "ready": True}))


def _json(content: bytes) -> Response:
    return Response(content, media_type=JSON, headers=PLAIN_HEADERS)


@lru_cache(maxsize=8)
def _paths(name: str, version: str) -> frozenset[str]:
    return frozenset({f"/v2/models/{name}", f"/v2/models/{name}/versions/{version}"})


@dataclass(frozen=True)
class StartPage:
    """The page and its headers.

    The content security policy allows the style and the script of the page by their hashes, and nothing else.
    """

    content: bytes
    headers: Mapping[str, str]


@cache
def read_page() -> StartPage:
    """Return the start page. It is the same for all models."""
    style, script = ((FOLDER / name).read_text("utf-8") for name in ("page.css", "page.js"))
    page = (FOLDER / "page.html").read_text("utf-8").replace("/*style*/", style).replace("/*script*/", script)
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
    }
    return StartPage(page.encode(), headers)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
