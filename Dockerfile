# One image for all services: `docker run IMAGE serve NAME --set key=value`.
FROM python:3.12-slim
COPY . /src
RUN pip install --no-cache-dir -c /src/deploy/constraints.txt '/src[gateway,worker,cache,trainer,tuner,coordinator,client]' \
 && rm -rf /src
USER 65532
ENTRYPOINT ["tlt"]
