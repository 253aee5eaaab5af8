module github.com/holdfast-go/holdfast/lab

go 1.26.0
