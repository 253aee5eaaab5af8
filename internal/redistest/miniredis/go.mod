module github.com/holdfast-go/holdfast/internal/redistest/miniredis

go 1.26.0

tool github.com/holdfast-go/holdfast/internal/redistest/miniredis

require github.com/alicebob/miniredis/v2 v2.40.0

require github.com/yuin/gopher-lua v1.1.1 // indirect
