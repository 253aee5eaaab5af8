# The image of a release, made by goreleaser: the static binary and nothing else.
FROM scratch
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/holdfast /holdfast
ENTRYPOINT ["/holdfast"]
