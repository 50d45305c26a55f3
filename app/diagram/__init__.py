"""Pictures of models as SVG: where the modeler has put things, or laid out by us, with tokens and incidents on them."""
