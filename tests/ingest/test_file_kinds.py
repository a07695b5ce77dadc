"""Kinds of files: a judged table of paths and beginnings, and .gitattributes."""

from __future__ import annotations

import pytest

from vikingd.ingest.file_kinds import FileKind, file_kind, without_derived_kind
from vikingd.ingest.git_attributes import GitAttributes

_BY_PATH = {
    "source": """
        app.py  main.go  index.ts  lib.rs  src/flask/app.py  src/flask/testing.py
        lib/jekyll/commands/help.rb  lib/rules/no-ternary.js  src/Text/Pandoc/Image.hs
        packages/vant/src/action-sheet/types.ts  packages/vant/src/slider/index.less
        packages/vant/src/grid-item/GridItem.tsx  src/components/Login.vue  src/routes/+page.svelte
        src/main/java/com/example/shop/Order.java  src/main/java/com/acme/test/TestRunner.java
        src/main/kotlin/com/acme/Api.kt  src/main/scala/Main.scala  Sources/App/Server.swift
        Acme.Core/Services/LatestPrices.cs  app/models/user.rb  app/Http/Controllers/Cart.php
        include/net/socket.h  src/engine/parser.cc  cmd/server/main.go  internal/fs/fs.go
        render/protobuf.go  proto/api/v1/users.proto  schema/graphql/schema.graphql
        db/migrate/20200101_add_users.rb  db/structure.sql  migrations/0001_create_users.sql
        scripts/deploy.sh  tools/check-rule-examples.js  bin/console.rb  styles/main.scss
        templates/base.html  app/views/layouts/application.html.erb  _includes/search/input.html
        templates/email/welcome.j2  charts/web/templates/deployment.tpl
        data/templates/default.latex
        vikingd/ctl/demo.py  src/contest.py  src/latest.py  lib/attestation.go  src/protest/march.ts
        src/completion/complete.ts
        src/license.py  pkg/license/license.go  src/readme.ts  src/notice.go  lib/changelog.rb
        src/types/index.d.ts  infra/main.tf  kernel/sched.c  benches/sort.rs  src/spec.ts
        src/testing/harness.go  pkg/documentation.go  notebooks/churn.ipynb  src/deps/graph.py
        src/external/api.py  build/users.ts  build/ci.go  src/out.rs  src/target/select.ts
        lib/theme_template/LICENSE.txt.erb  src/inspector.js  api/openapi.proto  src/docs/render.ts
        src/dist/lognormal.py
        gateway/docs.py  src/com/example/Main.java  src/cache/lru.ts  config/routes.rb
        src/jquery-adapter.ts  lib/generated.py  web/public/app.css  src/sample_rate.rs
    """,
    "test": """
        tests/test_app.py  test_app.py  pkg/app_test.py  conftest.py  src/app/conftest.py
        app/tests.py  shop/tests/factories.py  tests/data/orders.json  tests/static/config.toml
        tests/templates/index.html  examples/tutorial/tests/test_auth.py  tests/.env
        context_test.go  binding/form_mapping_test.go  testdata/users.json  testdata/a/test.proto
        internal/testdata/golden.txt  gin_integration_test.go
        src/app.test.ts  src/app.spec.ts  src/App.test.jsx  src/Login.spec.vue  app.e2e-spec.ts
        cypress/support/commands.js  login.cy.ts  src/__tests__/login.ts  src/__mocks__/fs.js
        packages/vant/src/button/test/index.spec.tsx  packages/vant/src/button/test/demo.spec.ts
        tests/fixtures/parsers/comma-dangle/return-type-2.js  test/index.js  setupTests.ts
        tests/lib/rules/wrap-regex.js  e2e/checkout.ts  src/index.test-d.ts  vitest.setup.ts
        tests/integration.rs  src/parser/tests.rs  src/lexer_test.rs
        src/test/java/com/example/OrderTest.java  OrderTest.java  OrderTests.java  OrderIT.java
        TestOrder.java  src/test/resources/orders.xml  src/androidTest/java/UiFlow.kt  ApiTest.kt
        OrderSpec.scala  OrderSuite.scala  ParserSpec.groovy  src/test/scala/Helpers.scala
        Acme.Core.Tests/OrderTests.cs  Acme.Core.Tests/Acme.Core.Tests.csproj  ParserTest.cs
        Recognizers.DataDrivenTests/Matcher/StringMatcher.cs
        spec/models/user_spec.rb  spec/spec_helper.rb  test/test_filters.rb  test/user_test.rb
        spec/support/login.rb  features/plugins.feature  tests/Unit/CartTest.php  CartTest.php
        Zend/tests/bug1.phpt  Tests/AppTests/ServerTests.swift  AppUITests/Flow.swift
        ServerTests.swift  src/parser_test.cc  src/parser_unittest.cpp  test/parser.c  test_list.c
        ParserTest.cpp  test/command/3570.md  test/docx/lists.docx  test/fb2/notes.fb2
        t/basic.t  test/app.bats  run_test.sh  test/app_test.exs  lib/app_SUITE.erl
        widget_test.dart  test/Main/Spec.hs  LexerSpec.hs  spec/fixtures/a.rb  unit_tests/a.py
        my_tests/helpers.py  src/integration-tests/flow.ts  test_apps/.flaskenv
        test-utils/render.tsx
        Java/tests/src/test/java/com/acme/NotSupported.java  myrepo/tests/helpers.py
    """,
    "documentation": """
        README.md  README  readme.txt  README.zh-CN.md  README.ja-JP.md  CHANGELOG.md  CHANGES.rst
        HISTORY.md  CONTRIBUTING.md  CODE_OF_CONDUCT.md  SECURITY.md  AUTHORS  TODO  INSTALL  BUGS
        docs/guide/setup.md  docs/index.rst  doc/faqs.md  documentation/api.adoc  docs/shell.rst
        docs/testing.rst  docs/tests/overview.md  docs/src/rules/no-empty-pattern.md
        docs/images/flow.svg  docs/assets/site.css  docs/src/_data/flags.js  docs/_static/theme.js
        wiki/Home.mediawiki  man/tool.1  pandoc-cli/man/server.1  notes.md  notes/today.txt
        ideas/plan.org  Meetings/2024-05-01.md  ru/Teams/guide.md  handbook.pdf  paper.docx
        slides/intro.pptx  book.epub  pages/about.html  site/index.htm  letters/mum.odt
        src/button/README.md  src/button/guide.zh-CN.md  examples/README.md  examples/guide.md
        tests/README.md  src/app/notes.txt  .github/PULL_REQUEST_TEMPLATE.md
        .github/ISSUE_TEMPLATE/bug_report.md  _posts/2013-10-28-release.markdown
        _tutorials/cache-api.md  spec/agent-skills-spec.md  specs/protocol.md  AGENTS.md  CLAUDE.md
        docs/license.md  guide/license.html.md  copying.md  llms.txt  docs/examples/index.md
        contents/en/how-to/data/dynamic-data.md  src/labs/usage/examples.mdx  test.md  spec.md
        changelogs/1892.removal.rst  BENCHMARKS.md  myrepo/docs/conf_helper.py  thesis/main.tex
        config/en/notes.md  data/description.md  vendor.md  build/notes.md  dist/guide.md
        generated.md  dataset.txt  package.md
    """,
    "example": """
        examples/app.py  examples/celery/src/task_app/tasks.py  examples/pyproject.toml
        examples/Dockerfile  examples/.gitignore  docs/examples/app/simple02.py
        docs/_examples/custom-rule/package.json  _examples/basic/main.go  example/lib/main.dart
        samples/browser/index.html  samples/browser/package.json  JavaScript/samples/index.js
        .NET/Samples/SimpleConsole/Program.cs  .NET/Samples/Bot/appsettings.json
        demo/index.vue  packages/vant/src/button/demo/index.vue  demos/todo/app.tsx
        tutorials/first/app.py  docs_src/first_steps/tutorial001.py  cookbook/rag.ipynb
        playground/main.ts  quickstart/main.py  example.py  example_usage.go  Button.stories.tsx
        examples/data.csv  examples/templates/login.html  wasm/examples/rst/stdin
        samples/simple/requirements.txt  snippets/auth.go
    """,
    "configuration": """
        contrib/completion/_fd  completions/fd.fish  shell-completions/app.bash
        pyproject.toml  setup.py  setup.cfg  tox.ini  noxfile.py  requirements.txt
        requirements-dev.txt  requirements/base.in  requirements/base.txt
        constraints.txt  MANIFEST.in  Pipfile
        environment.yml  docs/conf.py  docs/Makefile  docs/requirements.txt  mkdocs.yml
        src/flask/py.typed  package.json  packages/vant/package.json  tsconfig.json
        tsconfig.build.json  .eslintrc.js  .prettierrc  .babelrc  vite.config.ts  jest.config.js
        webpack.config.js  webpack.prod.js  eslint.config.mjs  Gruntfile.js  gulpfile.js
        .github/workflows/ci.yml  .github/CODEOWNERS  .github/dependabot.yml  .gitlab-ci.yml
        .circleci/config.yml  .vscode/settings.json  .devcontainer/devcontainer.json
        .pre-commit-config.yaml  .gitignore  .gitattributes  .editorconfig  .dockerignore  .nvmrc
        Dockerfile  Dockerfile.dev  web.Dockerfile  docker-compose.yml  compose.yaml  Makefile
        GNUmakefile  CMakeLists.txt  meson.build  cmake/find.cmake  BUILD  WORKSPACE  BUILD.bazel
        justfile  Jenkinsfile  Vagrantfile  Procfile  Rakefile  Gemfile  jekyll.gemspec  Podfile
        go.mod  Cargo.toml  .cargo/config.toml  build.rs  rust-toolchain.toml  pom.xml  build.gradle
        build.gradle.kts  settings.gradle.kts  gradle.properties  build.sbt  Acme.csproj  Acme.sln
        Directory.Build.props  appsettings.Development.json  NuGet.config  composer.json
        phpunit.xml.dist  Package.swift  mix.exs  rebar.config  stack.yaml  pandoc.cabal
        nginx.conf  config/en/navbar.yaml  config/database.yml  deploy/values.yaml  k8s/service.yaml
        src/main/resources/application.properties  .env.example  robots.txt  renovate.json
        AndroidManifest.xml  logback.xml  systemd/app.service  _config.yml  codecov.yml
        vars.tfvars  lerna.json  angular.json  Info.plist  manifest.json  tests.yaml
    """,
    "data": """
        data.csv  data/orders.tsv  stats.parquet  events.jsonl  cities.geojson  report.xlsx
        data/words.json  docs/src/_data/rules.json  lib/formatters-meta.json  orders.xml
        locales/en.json  src/i18n/zh.yml  data/translations/af.yaml  po/de.po  app/strings.xml
        dump.sql  backup/2024.sql  db/seeds/users.sql  app.sqlite3  weights.npy  app.log
        images/logo.svg  imgs/demo.svg  fix.patch  wasm/patches/memory.patch  refs.bib  cal.ics
        Specs/DateTime/English/Parser.json  schemas/wml-2010.xsd  cert.pem  users.ndjson
    """,
    "generated": """
        package-lock.json  yarn.lock  pnpm-lock.yaml  poetry.lock  uv.lock  Cargo.lock  go.sum
        composer.lock  Gemfile.lock  flake.lock  Pipfile.lock  Package.resolved  npm-shrinkwrap.json
        frontend/package-lock.json  .terraform.lock.hcl  app.min.js  style.min.css  app.js.map
        api/users.pb.go  api/users_pb2.py  api/users_pb2_grpc.py  api/users_pb2.pyi  users.pb.cc
        users.pb.h  gen/users_pb.js  users_pb.d.ts  user.pb.swift  user.g.dart  user.freezed.dart
        Form1.Designer.cs  Model.g.cs  api.gen.go  zz_generated.deepcopy.go  wire_gen.go
        bindata.go  schema_generated.rs  types.generated.ts  routeTree.gen.ts  UsersGrpc.java
        src/__generated__/query.ts  test/__snapshots__/app.spec.ts.snap  dist/index.js
        dist/assets/app.css  packages/dist/index.mjs  out/main.js  target/classes/a.xml
        .next/server/page.js  coverage/index.html  testdata/test.pb.go
        App.xcodeproj/project.pbxproj
        lex.yy.c  y.tab.c  moc_window.cpp  app.egg-info/PKG-INFO
        tests/__snapshots__/test_app/test_theme.svg
    """,
    "vendored": """
        vendor/github.com/pkg/errors/errors.go  vendor/autoload.php  node_modules/react/index.js
        node_modules/react/LICENSE  node_modules/react/README.md  web/node_modules/a/b.d.ts
        third_party/zlib/inflate.c  thirdparty/a.h  3rdparty/b.cpp  src/_vendor/six.py
        pip/_vendor/requests/api.py  Godeps/_workspace/a.go  Pods/AFNetworking/a.m
        bower_components/d3/d3.js  deps/jemalloc/src/a.c  external/catch/catch.hpp
        extern/glm/a.hpp  .venv/lib/python3.12/site-packages/a.py  gradlew  gradlew.bat  mvnw
        js/jquery-3.6.0.js  js/jquery.min.js  css/bootstrap.min.css  docs/js/html5shiv.min.js
        docs/js/respond.min.js  static/css/normalize.css  config.guess  install-sh
        .yarn/releases/yarn-3.cjs
        static/tinymce/plugin.js  tests/fixtures/node_modules/foo.js
    """,
    "licence": """
        LICENSE  LICENSE.txt  LICENSE.md  LICENCE  LICENSE-MIT  LICENSE-APACHE  LICENSE.Apache-2.0
        license.txt  License.md  COPYING  COPYING.LESSER  COPYING.md  COPYRIGHT  NOTICE  NOTICE.txt
        UNLICENSE  MIT-LICENSE  PATENTS  LICENSES/MIT.txt  LICENSES/Apache-2.0.txt
        packages/vant/LICENSE  examples/tutorial/LICENSE.txt  docs/fonts/Inter/OFL.txt
        ThirdPartyNotices.md  THIRD_PARTY_NOTICES.md  third-party-licenses.txt  tests/LICENSE
        lib/app.js.LICENSE.txt
    """,
}

_BY_BEGINNING = [
    ("zz.go", "// Code generated by mockgen. DO NOT EDIT.\n\npackage a\n", "generated"),
    (
        "zz.go",
        "//go:build linux\n\n// Code generated by stringer; DO NOT EDIT.\npackage a",
        "generated",
    ),
    ("zz.go", "package a\n\n// Code generated by x. DO NOT EDIT.\n", "source"),
    ("zz.go", "// Copyright 2020\n\n// Package a writes generated code.\npackage a", "source"),
    ("a.py", "# Generated by the protocol buffer compiler.  DO NOT EDIT!\nimport a", "generated"),
    ("a.py", "# -*- coding: utf-8 -*-\n# @generated by Cargo\n", "generated"),
    ("a.py", '"""Autogenerated keys are tested here."""\nimport a', "source"),
    ("a.py", '"""Helpers for auto-generated names and for code generators."""\n', "source"),
    ("a.py", "import a\n\n# This file is auto-generated\n", "source"),
    ("a.py", '"""Adds \'Code generated by x. DO NOT EDIT.\' to files."""\n', "source"),
    ("a.go", "// Package a finds `Code generated by x. DO NOT EDIT.` in files.\n", "source"),
    ("a.ts", '// Skips files that say "@generated" at the top.\nx', "source"),
    ("a.py", "# Generated by 'protoc'. DO NOT EDIT!\nimport a", "generated"),
    (
        "a.py",
        '"""This file is generated by "make". Don\'t edit it, it\'s a copy."""\n',
        "generated",
    ),
    ("a.py", "'''This file was generated.'''\n", "generated"),
    ("a.go", '// Code generated by "stringer -type=A"; DO NOT EDIT.\n', "generated"),
    ("a.go", "// Code generated by `mockery`. DO NOT EDIT.\n", "generated"),
    (
        "a.py",
        "# ------\n# <auto-generated>\n#     This code was generated by a tool.\n",
        "generated",
    ),
    ("a.py", "# Generated by Django 3.2.5 on 2021-07-01\nfrom django.db import m", "source"),
    ("a.cs", "// <auto-generated />\nnamespace A;", "generated"),
    (
        "a.java",
        "/**\n * Autogenerated by Thrift Compiler (0.13.0)\n *\n */\npackage a;",
        "generated",
    ),
    ("a.java", "/* Generated By:JavaCC: Do not edit this line. A.java */\npackage a;", "generated"),
    ("A.java", "// Generated from Expr.g4 by ANTLR 4.9\nclass A {}", "generated"),
    ("a.ts", "/* eslint-disable */\n/* This file was automatically generated. */\nx", "generated"),
    ("a.ts", "/**\n * @generated SignedSource<<abc>>\n */\nexport {}", "generated"),
    (
        "a.ts",
        "/**\n * NOTE: This class is auto generated by OpenAPI Generator.\n */\n",
        "generated",
    ),
    ("a.ts", "'use strict';\n// AUTO-GENERATED - DO NOT EDIT\n", "generated"),
    ("a.ts", "/** Marks nodes as generated, so that tools change nothing. */\nx", "source"),
    ("a.js", "/**\n * Returns an id.\n * @generated(false)\n */\n", "source"),
    ("a.php", "<?php\n\n// This file is automatically generated by Laravel.\n", "generated"),
    (
        "a.rb",
        "# frozen_string_literal: true\n# This file is auto-generated from the state\n",
        "generated",
    ),
    ("a.sh", "#!/bin/sh\n# Generated by GNU Autoconf 2.69 for x.\n", "generated"),
    ("a.c", "/* A Bison parser, made by GNU Bison 3.5.1.  */\n", "generated"),
    ("a.c", "/* Generated by Cython 0.29.21 */\n#define X", "generated"),
    ("a.sql", "-- Generated by the migration tool. Do not edit.\nSELECT 1;", "generated"),
    ("a.yaml", "# Code generated by controller-gen. DO NOT EDIT.\nkind: x", "generated"),
    ("a.yaml", "# Values for the generated manifests.\nkind: x", "configuration"),
    ("requirements.txt", "#\n# This file is autogenerated by pip-compile\nflask==1", "generated"),
    ("requirements.txt", "flask\n", "configuration"),
    ("a.md", "<!-- This file is auto-generated. Do not edit. -->\n# CLI\n", "documentation"),
    ("a.html", "<!-- Generated by Sphinx -->\n<p>x", "documentation"),
    (
        "a.hs",
        "{- This module is generated, and is not to be edited; do not edit. -}\n",
        "generated",
    ),
    ("a.rs", "// This file is @generated by prost-build.\n", "generated"),
    ("a.rs", "//! Code generation for the macros. Generated items get a span.\n", "source"),
    ("a.swift", "// DO NOT EDIT.\n//\n// Generated by the Swift generator plugin\n", "generated"),
    ("a.js", "var a=1;" * 400, "generated"),
    ("a.js", "var a = 1;\n" * 400, "source"),
    ("a.css", ".a{b:c}" * 400, "generated"),
    ("a.json", '{"a":1}' * 400, "data"),
    ("tests/a.py", "# @generated\n", "generated"),
    ("dump2024.sql", "-- MySQL dump 10.13\n", "data"),
    ("schema.sql", "-- PostgreSQL database dump\n", "data"),
    ("schema.sql", "CREATE TABLE a (b int);", "source"),
    ("pages/a.html", "<ul>{% for x in y %}<li>{{ x }}</li>{% endfor %}</ul>", "source"),
    ("pages/a.html", '<p v-if="user">x</p>', "source"),
    ("pages/a.html", "<!doctype html><h1>About</h1>", "documentation"),
    ("index.html", '<script type="module" src="/src/main.ts"></script>', "source"),
    ("script/console", "#!/usr/bin/env ruby\n", "source"),
    ("bin/tool", "#!/bin/sh\n", "source"),
    ("unknown.zzz", "", "source"),
]
_ROWS = [
    *((path, "", kind) for kind, paths in _BY_PATH.items() for path in paths.split()),
    *_BY_BEGINNING,
]


def test_each_file_of_the_table_has_its_kind() -> None:
    """The kind that a person would give, for paths and headers of many languages."""
    found = [(path, begin[:40], file_kind(path, begin).value, kind) for path, begin, kind in _ROWS]
    assert [row for row in found if row[2] != row[3]] == []
    assert len(_ROWS) > 500
    assert {kind for _, _, kind in _ROWS} == {kind.value for kind in FileKind}


def test_attributes_decide_before_the_rules() -> None:
    """The last match wins, the deepest file decides, and a denied kind is not given."""
    attributes = GitAttributes()
    attributes.add(
        "",
        "\ufeff# a comment\n"
        "*.py text\n"
        "gen/** linguist-generated\n"
        "gen/keep.py -linguist-generated\n"
        "*.tsx linguist-generated=false\r\n"
        "libs/*.c linguist-vendored=true\n"
        "/vendor/** -linguist-vendored\n"
        "handbook/** linguist-documentation\n"
        "docs/** linguist-documentation=false\n"
        '"with space/*.py" linguist-generated\n'
        "build/ linguist-generated\n"
        "!neg.py linguist-generated\n"
        "[attr]made linguist-generated\n"
        "made.sql made\n"
        "last.go linguist-generated\nlast.go !linguist-generated\n",
    )
    attributes.add("pkg", "*.py linguist-generated\nmine.py -linguist-generated\n")
    attributes.add("pkg/deep", "*.py -linguist-generated\n")
    wanted = {
        "gen/a/b.py": "generated",
        "gen/keep.py": "source",
        "made.gen.tsx": "source",
        "libs/a.c": "vendored",
        "libs/deep/a.c": "source",
        "vendor/ours/a.go": "source",
        "sub/vendor/a.go": "vendored",
        "handbook/a.py": "documentation",
        "docs/render.py": "source",
        "docs/a.md": "documentation",
        "with space/a.py": "generated",
        "build/a.py": "source",  # in Git a pattern with "/" at its end matches no file
        "neg.py": "source",
        "made.sql": "generated",
        "last.go": "source",
        "pkg/a.py": "generated",
        "pkg/mine.py": "source",
        "pkg/deep/a.py": "source",
        "other/a.py": "source",
    }
    assert {path: file_kind(path, "", attributes).value for path in wanted} == wanted


@pytest.mark.parametrize(
    "text",
    [
        "\0\0\0",
        "linguist-generated",
        "[attr]\n[attr] linguist-generated\n",
        '"unended linguist-generated\n',
        "[[[ linguist-generated\n\\ linguist-generated\n",
        "*" * 5_000 + " linguist-generated\n",
        "a" + "*a" * 800 + " linguist-generated\n",
        "x linguist-generated\n" * 50_000,
    ],
)
def test_odd_attributes_say_nothing_and_take_no_time(text: str) -> None:
    """Invalid, endless and hostile lines leave the rules alone."""
    attributes = GitAttributes()
    attributes.add("", text)
    assert file_kind("src/" + "a" * 200 + ".py", "", attributes) is FileKind.SOURCE


def test_a_derived_kind_is_left_out_and_a_stated_one_stays() -> None:
    """Only the kind that an import would derive again is redundant."""
    assert without_derived_kind({"kind": "documentation", "a": 1}, "guide/a.md") == {"a": 1}
    assert without_derived_kind({"kind": "test", "a": 1}, "guide/a.md") == {"kind": "test", "a": 1}
    assert without_derived_kind({"kind": "test"}, "tests/a.md") == {}
    assert without_derived_kind({"a": 1}, "guide/a.md") == {"a": 1}
