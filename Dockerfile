# Two images: `slim` for gateway, cache, tuner and coordinator; `engine` for workers and spot trainers on CUDA.
# Optional build secrets: `index` (shell assignments such as UV_DEFAULT_INDEX=...) and `ca` (a PEM bundle).

# Python 3.11 or 3.12 on Debian. Air-gapped builds set a mirror; releases set a digest (name@sha256:...).
ARG BASE=docker.io/library/python:3.12.12-slim-bookworm

FROM ${BASE} AS builder
# Files in an image never change, so Python need not check byte code against the source's modification time.
ENV UV_LINK_MODE=copy \
    PYC_INVALIDATION_MODE=UNCHECKED_HASH
ENV UV_CACHE_DIR=/var/cache/uv
WORKDIR /build
COPY deploy/image/with-index /usr/local/bin/
COPY deploy/constraints.txt ./
RUN --mount=type=secret,id=index --mount=type=secret,id=ca \
    python3 -m venv /opt/uv && sed -n '/^uv==/,/[^\\]$/p' constraints.txt >/tmp/uv.txt \
 && with-index /opt/uv/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r /tmp/uv.txt \
 && ln -s /opt/uv/bin/uv /usr/local/bin/uv
COPY pyproject.toml ./

# Dependencies before sources: a source change reuses the slow layer. Wheels only: a source distribution would run an
# unreviewed build script, and no stage has a compiler for it.
FROM builder AS slim-packages
RUN --mount=type=secret,id=index --mount=type=secret,id=ca --mount=type=cache,target=/var/cache/uv \
    uv venv --python "$(command -v python3)" /opt/tlt \
 && with-index uv pip install --python /opt/tlt/bin/python --compile-bytecode --require-hashes --only-binary :all: -c constraints.txt \
    -r pyproject.toml --extra gateway --extra cache --extra tuner --extra coordinator --extra client --extra traces

FROM builder AS wheel
COPY README.md LICENSE ./
COPY tlt_suite tlt_suite
COPY tlt_common tlt_common
COPY services services
RUN --mount=type=secret,id=index --mount=type=secret,id=ca --mount=type=cache,target=/var/cache/uv \
    with-index uv build --wheel --require-hashes --build-constraints constraints.txt --out-dir /dist

# Remove uv's lock file, which is world-writable.
FROM slim-packages AS slim-environment
COPY --from=wheel /dist /dist
RUN uv pip install --python /opt/tlt/bin/python --compile-bytecode --no-deps --no-index /dist/*.whl \
 && rm /opt/tlt/.lock

# The common base of both images, without pip and without setuid or setgid files.
FROM ${BASE} AS runtime
# Ray and getpass look up the user by uid, so it needs an entry in passwd.
RUN echo 'tlt:x:65532:65532:tlt:/tmp:/usr/sbin/nologin' >> /etc/passwd \
 && echo 'tlt:x:65532:' >> /etc/group \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
 && rm -rf /usr/local/bin/pip* /usr/local/lib/python3*/site-packages/pip* /usr/lib/python3*/ensurepip \
           /usr/local/lib/python3*/ensurepip /usr/share/python-wheels
# The root file system may be read-only: home and all caches are in /tmp, and byte code is compiled in advance.
ENV PATH=/opt/tlt/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    # Arguments of the health check: by default the gateway's port; `-e TLT_HEALTH="127.0.0.1:7703"` for the cache.
    TLT_HEALTH=127.0.0.1:7700
WORKDIR /tmp
STOPSIGNAL SIGTERM
# For Docker and Podman; on Kubernetes the chart sets probes. `sh` splits TLT_HEALTH into arguments.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["sh", "-c", "exec tlt health ${TLT_HEALTH}"]
ENTRYPOINT ["tlt"]
LABEL org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.description="RL rollouts whose idle GPUs train a drafter, which makes the long tail fast, losslessly"

FROM runtime AS slim
COPY --from=slim-environment /opt/tlt /opt/tlt
ARG VERSION=0.0.0
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="tlt-slim" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"
USER 65532:65532

# Engines compile kernels for their device at run time: Triton with gcc, SGLang and FlashInfer with nvcc, ninja and g++.
# nvcc, ninja and the CUDA libraries come as wheels and the driver from the node, so no CUDA base image is needed.
FROM runtime AS toolchain
# No pinned versions: Debian's security updates remove the old ones. wget is for KubeRay's probes of Ray Serve.
# hadolint ignore=DL3008
RUN set -- g++ libnuma1 wget \
 && headers=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))') \
 && if [ ! -e "$headers/Python.h" ]; then set -- "$@" python3-dev; fi \
 && apt-get update && apt-get install --yes --no-install-recommends "$@" \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
 && rm -rf /var/lib/apt/lists/*
# Path of the driver on GKE; elsewhere it is on the default search path.
ENV LD_LIBRARY_PATH=/usr/local/nvidia/lib64 \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    CUDA_HOME=/usr/local/cuda

# Installed where it stays, with what is borrowed from other stages: copying an environment of 11 GB between stages
# would hold it, and write it, twice. Removed: archives that only a C++ build would link, and uv's lock file.
FROM toolchain AS engine-environment
# The working directory is mounted for this step only.
# hadolint ignore=DL3003
RUN --mount=type=secret,id=index --mount=type=secret,id=ca --mount=type=cache,target=/var/cache/uv \
    --mount=type=bind,from=builder,target=/builder \
    cd /builder/build && export PATH=/builder/opt/uv/bin:/builder/usr/local/bin:$PATH \
 && export UV_LINK_MODE=copy UV_CACHE_DIR=/var/cache/uv PYC_INVALIDATION_MODE=UNCHECKED_HASH \
 && uv venv --python "$(command -v python3)" /opt/tlt \
 && with-index uv pip install --python /opt/tlt/bin/python --compile-bytecode --require-hashes --only-binary :all: -c constraints.txt \
    -r pyproject.toml --extra gateway --extra cache --extra tuner --extra coordinator --extra client --extra traces \
    --extra worker --extra trainer --extra stores \
 && find /opt/tlt -path '*/triton/*' -name '*.a' -delete \
 && rm /opt/tlt/.lock
RUN --mount=type=bind,source=deploy/image/cuda-home,target=/usr/local/bin/cuda-home cuda-home /opt/tlt

# A layer of its own: a release of the suite with the same dependencies is pulled in a second.
FROM engine-environment AS engine
RUN --mount=type=bind,from=builder,target=/builder --mount=type=bind,from=wheel,source=/dist,target=/dist \
    PYC_INVALIDATION_MODE=UNCHECKED_HASH /builder/opt/uv/bin/uv pip install --python /opt/tlt/bin/python \
    --no-cache --compile-bytecode --no-deps --no-index /dist/*.whl \
 && rm -f /opt/tlt/.lock
ARG VERSION=0.0.0
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="tlt-engine" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"
USER 65532:65532
