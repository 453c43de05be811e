//! The operations of a decoder block as they allocate: what each makes, what it saves for backward, and what its
//! backward makes, in the order of PyTorch's own formulas. One function an operation; no model knows another's name.

use crate::tape::{Dtype, Grads, Part, Raw, Tape, Tensor};

fn grad_of(grads: &Grads) -> Raw {
    grads
        .first()
        .cloned()
        .flatten()
        .unwrap_or_else(|| Raw::nothing(0, Dtype::Fp32))
}

impl Tape {
    /// Another type: nothing where it has it already.
    pub(crate) fn to(&self, x: &Tensor, dtype: Dtype) -> Tensor {
        if x.dtype() == dtype {
            return x.clone();
        }
        let raw = Raw {
            heads_first: x.raw.heads_first,
            ..self.new_raw(x.numel(), dtype)
        };
        let back_to = x.dtype();
        let node = self.node(&[x], move |tape, grads| {
            vec![Some(tape.cast_raw(grad_of(grads), back_to))]
        });
        self.output(raw, node.as_ref(), 0, x.grad)
    }

    /// Result of two tensors added; gradients pass through, summed by their owner where they must be.
    pub(crate) fn add(&self, a: &Tensor, b: &Tensor) -> Tensor {
        let dtype = a.dtype().promoted(b.dtype());
        let raw = self.new_raw(a.numel().max(b.numel()), dtype);
        let node = self.node(&[a, b], |_, grads| {
            vec![Some(grad_of(grads)), Some(grad_of(grads))]
        });
        self.output(raw, node.as_ref(), 0, a.grad || b.grad)
    }

    /// Times a number.
    pub(crate) fn scale(&self, x: &Tensor) -> Tensor {
        let raw = self.new_raw(x.numel(), x.dtype());
        let node = self.node(&[x], |tape, grads| {
            let grad = grad_of(grads);
            vec![Some(tape.new_raw(grad.numel, grad.dtype))]
        });
        self.output(raw, node.as_ref(), 0, x.grad)
    }

    /// Elementwise product of two activations of one shape.
    pub(crate) fn mul(&self, a: &Tensor, b: &Tensor) -> Tensor {
        let saved_a = b.grad.then(|| self.save(&a.raw));
        let saved_b = a.grad.then(|| self.save(&b.raw));
        let raw = self.new_raw(a.numel(), a.dtype().promoted(b.dtype()));
        let node = self.node(&[a, b], move |tape, grads| {
            let grad = grad_of(grads);
            let a = saved_a.map(|saved| tape.unpack(saved));
            let b = saved_b.map(|saved| tape.unpack(saved));
            // Both stay until both products are made.
            let to_a = b.as_ref().map(|_| tape.new_raw(grad.numel, grad.dtype));
            let to_b = a.as_ref().map(|_| tape.new_raw(grad.numel, grad.dtype));
            drop((a, b));
            vec![to_a, to_b]
        });
        self.output(raw, node.as_ref(), 0, a.grad || b.grad)
    }

    /// Product with a tensor that is not trained and is broadcast (a norm's weight, a rotation).
    pub(crate) fn mul_constant(&self, x: &Tensor, by: &Raw, weight: bool) -> Tensor {
        let saved = x.grad.then(|| self.save_as(by, weight, false));
        let raw = Raw {
            heads_first: x.raw.heads_first,
            ..self.new_raw(x.numel(), x.dtype().promoted(by.dtype))
        };
        let node = self.node(&[x], move |tape, grads| {
            let grad = grad_of(grads);
            let by = saved.map(|saved| tape.unpack(saved));
            let heads_first = grad.heads_first;
            let made = Raw {
                heads_first,
                ..tape.new_raw(grad.numel, grad.dtype)
            };
            drop(by);
            vec![Some(made)]
        });
        self.output(raw, node.as_ref(), 0, x.grad)
    }

    /// `x * x` by rows of `width`, averaged, `+ eps`, inverse root: one number a row.
    pub(crate) fn inverse_rms(&self, x: &Tensor, width: u64) -> Tensor {
        let rows = x.numel() / width;
        let saved = self.save(&x.raw);
        let squared = Raw {
            heads_first: x.raw.heads_first,
            ..self.new_raw(x.numel(), x.dtype())
        };
        let node = self.node(&[x], move |tape, grads| {
            let grad = grad_of(grads);
            let x = tape.unpack(saved);
            let heads_first = x.heads_first;
            let to_the_first = tape.new_raw(x.numel, x.dtype);
            let doubled = tape.new_raw(x.numel, x.dtype);
            let made = Raw {
                heads_first,
                ..tape.new_raw(x.numel, x.dtype)
            };
            drop((doubled, to_the_first, x, grad));
            vec![Some(made)]
        });
        let squared = self.output(squared, node.as_ref(), 0, x.grad);
        let mean = self.row_mean(&squared, rows);
        drop(squared);
        let padded = self.scale_free_add(&mean);
        drop(mean);
        self.rsqrt(&padded)
    }

    fn row_mean(&self, x: &Tensor, rows: u64) -> Tensor {
        let raw = self.new_raw(rows, x.dtype());
        let full = x.numel();
        let node = self.node(&[x], move |tape, grads| {
            let grad = grad_of(grads);
            vec![Some(tape.new_raw(full, grad.dtype))]
        });
        self.output(raw, node.as_ref(), 0, x.grad)
    }

    /// Plus a number.
    fn scale_free_add(&self, x: &Tensor) -> Tensor {
        let raw = self.new_raw(x.numel(), x.dtype());
        let node = self.node(&[x], |_, grads| vec![Some(grad_of(grads))]);
        self.output(raw, node.as_ref(), 0, x.grad)
    }

    fn rsqrt(&self, x: &Tensor) -> Tensor {
        let raw = self.new_raw(x.numel(), x.dtype());
        let saved = self.save(&raw);
        let node = self.node(&[x], move |tape, grads| {
            let grad = grad_of(grads);
            let result = tape.unpack(saved);
            let cubed = tape.new_raw(grad.numel, grad.dtype);
            let scaled = tape.new_raw(grad.numel, grad.dtype);
            let made = tape.new_raw(grad.numel, grad.dtype);
            drop((scaled, cubed, result));
            vec![Some(made)]
        });
        self.output(raw, node.as_ref(), 0, x.grad)
    }

    /// Rows times one number each.
    pub(crate) fn mul_rows(&self, x: &Tensor, by: &Tensor) -> Tensor {
        let saved_x = self.save(&x.raw);
        let saved_by = self.save(&by.raw);
        let raw = Raw {
            heads_first: x.raw.heads_first,
            ..self.new_raw(x.numel(), x.dtype())
        };
        let rows = by.numel();
        let node = self.node(&[x, by], move |tape, grads| {
            let grad = grad_of(grads);
            let (x, by) = (tape.unpack(saved_x), tape.unpack(saved_by));
            let to_x = Raw {
                heads_first: grad.heads_first,
                ..tape.new_raw(grad.numel, grad.dtype)
            };
            let product = tape.new_raw(grad.numel, grad.dtype);
            let to_by = tape.new_raw(rows, grad.dtype);
            drop((product, x, by));
            vec![Some(to_x), Some(to_by)]
        });
        self.output(raw, node.as_ref(), 0, x.grad)
    }

    /// The gate's nonlinearity.
    pub(crate) fn activation(&self, x: &Tensor) -> Tensor {
        let saved = self.save(&x.raw);
        let raw = self.new_raw(x.numel(), x.dtype());
        let node = self.node(&[x], move |tape, grads| {
            let x = tape.unpack(saved);
            let grad = grad_of(grads);
            let made = tape.new_raw(grad.numel, grad.dtype);
            drop(x);
            vec![Some(made)]
        });
        self.output(raw, node.as_ref(), 0, x.grad)
    }

    /// Dropout keeps one byte an element.
    pub(crate) fn dropout(&self, x: &Tensor) -> Tensor {
        let raw = self.new_raw(x.numel(), x.dtype());
        let before = self.log.part(Part::Dropout);
        let mask = self.new_raw(x.numel(), Dtype::U8);
        self.log.part(before);
        let saved = self.save(&mask);
        let node = self.node(&[x], move |tape, grads| {
            let mask = tape.unpack(saved);
            let grad = grad_of(grads);
            let made = tape.new_raw(grad.numel, grad.dtype);
            drop(mask);
            vec![Some(made)]
        });
        self.output(raw, node.as_ref(), 0, x.grad)
    }

    /// A copy.
    pub(crate) fn copy(&self, x: &Tensor) -> Tensor {
        let raw = self.new_raw(x.numel(), x.dtype());
        let node = self.node(&[x], |_, grads| vec![Some(grad_of(grads))]);
        self.output(raw, node.as_ref(), 0, x.grad)
    }

    /// Tokens as heads: free forward; backward flattens, which copies what lies heads first.
    pub(crate) fn as_heads(&self, x: &Tensor) -> Tensor {
        let node = self.node(&[x], |tape, grads| {
            let grad = grad_of(grads);
            vec![Some(if grad.heads_first {
                tape.new_raw(grad.numel, grad.dtype)
            } else {
                grad
            })]
        });
        self.output(x.raw.clone(), node.as_ref(), 0, x.grad)
    }

    /// Part of a tensor; backward writes it into zeros of the whole.
    pub(crate) fn slice(&self, x: &Tensor, numel: u64) -> Tensor {
        let full = x.numel();
        let node = self.node(&[x], move |tape, grads| {
            let grad = grad_of(grads);
            let whole = tape.new_raw(full, grad.dtype);
            vec![Some(Raw {
                heads_first: grad.heads_first,
                ..whole
            })]
        });
        self.output(x.raw.of(numel), node.as_ref(), 0, x.grad)
    }

    /// Consecutive parts; backward puts their gradients together in one new block.
    pub(crate) fn split(&self, x: &Tensor, sizes: &[u64]) -> Vec<Tensor> {
        let full = x.numel();
        let dtype = x.dtype();
        let node = self.node(&[x], move |tape, _| vec![Some(tape.new_raw(full, dtype))]);
        let parts = sizes.iter().enumerate();
        parts
            .map(|(at, size)| self.output(x.raw.of(*size), node.as_ref(), at, x.grad))
            .collect()
    }

    /// Parts put together; backward hands out views.
    pub(crate) fn cat(&self, parts: &[Tensor]) -> Tensor {
        let full = parts.iter().map(Tensor::numel).sum();
        let dtype = parts.first().map_or(Dtype::Bf16, Tensor::dtype);
        let raw = self.new_raw(full, dtype);
        let sizes: Vec<u64> = parts.iter().map(Tensor::numel).collect();
        let inputs: Vec<&Tensor> = parts.iter().collect();
        let node = self.node(&inputs, move |_, grads| {
            let grad = grad_of(grads);
            sizes.iter().map(|size| Some(grad.of(*size))).collect()
        });
        self.output(raw, node.as_ref(), 0, parts.iter().any(|part| part.grad))
    }

    /// A matrix product with a weight that may itself be trained (and may be a cast of the parameter).
    pub(crate) fn linear(&self, x: &Tensor, weight: &Tensor, out_numel: u64) -> Tensor {
        let saved_x = weight.grad.then(|| self.save(&x.raw));
        let saved_weight = x
            .grad
            .then(|| self.save_as(&weight.raw, crate::tape::WEIGHT, true));
        let raw = self.new_raw(out_numel, x.dtype());
        self.blas();
        let (in_numel, weight_numel, dtype) = (x.numel(), weight.numel(), x.dtype());
        let node = self.node(&[x, weight], move |tape, grads| {
            let x = saved_x.map(|saved| tape.unpack(saved));
            let weight = saved_weight.map(|saved| tape.unpack(saved));
            let to_weight = x.map(|x| (tape.new_raw(weight_numel, dtype), x));
            let to_x = weight.map(|weight| {
                let made = tape.new_raw(in_numel, dtype);
                tape.blas();
                (made, weight)
            });
            let (to_weight, x) = to_weight.unzip();
            let (to_x, weight) = to_x.unzip();
            drop((x, weight));
            let _ = grads;
            vec![to_x, to_weight]
        });
        self.output(raw, node.as_ref(), 0, x.grad || weight.grad)
    }
}
