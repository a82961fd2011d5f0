FROM golang:1.26 AS build
WORKDIR /src

# Where modules come from; without a value Go's own defaults hold.
ARG GOPROXY
ARG GOSUMDB

# A layer of its own: only a change of these two downloads modules again.
COPY go.mod go.sum ./
RUN go mod download

COPY . .
ARG VERSION
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/latchkey ./cmd/latchkey \
 && mkdir -p -m 700 /out/lib/latchkey


FROM gcr.io/distroless/static-debian13:nonroot
LABEL org.opencontainers.image.title="latchkey" \
      org.opencontainers.image.description="Distributed locks over plain HTTP" \
      org.opencontainers.image.licenses="Apache-2.0"

COPY --from=build /out/latchkey /latchkey
# The only place that is ever written to, and only by the embedded store.
COPY --from=build --chown=65532:65532 /out/lib /var/lib
VOLUME /var/lib/latchkey

# Without LATCHKEY_AUTH_FILE it starts with LATCHKEY_INSECURE_NO_AUTH=true only.
# By number, so that an orchestrator can see that it is not root.
USER 65532:65532
ENV LATCHKEY_LISTEN=:8080 \
    LATCHKEY_DATA_DIR=/var/lib/latchkey
EXPOSE 8080

HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=3 CMD ["/latchkey", "healthcheck"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/latchkey"]
CMD ["serve"]
