package x

func (g *storeGrant) lossSeen() {}
