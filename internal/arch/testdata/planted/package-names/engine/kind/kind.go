package kind
