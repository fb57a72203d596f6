"""Convolutional networks on images: augmentation, training, images of another kind, and what records say of them."""
