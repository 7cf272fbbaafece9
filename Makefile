# `make install` builds Parley, installs it under all its names, and restarts its service if that runs. It needs Node and npm.
# Another folder: make install DIR=/usr/local/bin. Other names besides parley: make install NAMES=ccc
DIR = $(HOME)/.local/bin
NAMES = bch,c2c,c2c-deliver-inbox,ccc

.PHONY: build install uninstall

build:
	node scripts/build.mjs

install: build
	dist/parley self install --dir "$(DIR)" --names "$(NAMES)"

uninstall:
	"$(DIR)/parley" self uninstall
