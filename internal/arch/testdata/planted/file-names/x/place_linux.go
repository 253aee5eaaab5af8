package x

func places() {}
