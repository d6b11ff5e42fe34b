"""transformers: models made from configurations of two layers and a few units, no downloads."""
import torch
import transformers as hf

from entry import Call, add

WIDE, HEADS, DEEP, WORDS = 32, 2, 2, 40
BERT = dict(vocab_size=WORDS, hidden_size=WIDE, num_hidden_layers=DEEP, num_attention_heads=HEADS, intermediate_size=48,
            max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=0, bos_token_id=1,
            eos_token_id=2)
LLAMA = dict(vocab_size=WORDS, hidden_size=WIDE, num_hidden_layers=DEEP, num_attention_heads=HEADS * 2, num_key_value_heads=HEADS,
             intermediate_size=48, max_position_embeddings=64, attention_dropout=0.0, pad_token_id=0, bos_token_id=1, eos_token_id=2)
GPT = dict(vocab_size=WORDS, n_positions=64, n_ctx=64, n_embd=WIDE, n_layer=DEEP, n_head=HEADS, attn_pdrop=0.0, embd_pdrop=0.0,
           resid_pdrop=0.0, bos_token_id=1, eos_token_id=2)
BART = dict(vocab_size=WORDS, d_model=WIDE, encoder_layers=DEEP, decoder_layers=DEEP, encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64, dropout=0.0,
            attention_dropout=0.0, activation_dropout=0.0, encoder_layerdrop=0.0, decoder_layerdrop=0.0, pad_token_id=0, bos_token_id=1,
            eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2)
T5 = dict(vocab_size=WORDS, d_model=WIDE, d_kv=8, d_ff=48, num_layers=DEEP, num_decoder_layers=DEEP, num_heads=HEADS, dropout_rate=0.0,
          pad_token_id=0, decoder_start_token_id=0)
VIT = dict(hidden_size=WIDE, num_hidden_layers=DEEP, num_attention_heads=HEADS, intermediate_size=48, image_size=32, patch_size=8,
           hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=5)
SPEECH = dict(vocab_size=WORDS, hidden_size=WIDE, num_hidden_layers=DEEP, num_attention_heads=HEADS, intermediate_size=48,
              conv_dim=(8, 8, 8), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 2), num_conv_pos_embeddings=8,
              num_conv_pos_embedding_groups=2, hidden_dropout=0.0, attention_dropout=0.0, activation_dropout=0.0,
              feat_proj_dropout=0.0, final_dropout=0.0, layerdrop=0.0, apply_spec_augment=False, feat_extract_dropout=0.0)


def words(length=8, batch=2):
    return torch.randint(3, WORDS, (batch, length))


def text(length=8):
    return lambda: {"ids": words(length)}


def masked(length=8):
    def make():
        mask = torch.ones(2, length, dtype=torch.long)
        mask[1, length - 3:] = 0
        return {"ids": words(length), "mask": mask}
    return make


def pixels(size=32, batch=2, name="pixels", channels=3):
    return lambda: {name: torch.randn(batch, channels, size, size)}


def first(result):
    return result if isinstance(result, torch.Tensor) else next(v for v in (
        result.values() if isinstance(result, dict) else result) if isinstance(v, torch.Tensor))


def model(name, config, kind, inputs, names, settings, loss="cross_entropy", pick=first, classes=5, attention="eager", extra=None,
          **options):
    """`config` and `kind`: class names in transformers; `names`: the keywords of forward, in the order of the inputs."""
    def build():
        made = getattr(hf, config)(**settings)
        made._attn_implementation = attention
        inner = getattr(hf, kind)(made)
        return Call(inner, lambda m, *x: pick(m(**dict(zip(names, x)), **(extra or {}), return_dict=True)))
    add("hf_" + name, "transformers", build, inputs, loss=loss, classes=classes, **options)


def encoder(name, prefix, settings=None, length=8, kind="ForMaskedLM", **options):
    model(name, prefix + "Config", prefix + kind, masked(length), ("input_ids", "attention_mask"), {**BERT, **(settings or {})},
          classes=WORDS, **options)


def decoder(name, prefix, settings, kind="ForCausalLM", config=None, length=8, extra=None, mask=True, **options):
    """With a mask of the padding: without one, transformers looks for packed sequences by an operator that does not export."""
    model(name, config or prefix + "Config", prefix + kind, masked(length) if mask else text(length), ("input_ids", "attention_mask")[:1 + mask],
          settings, classes=WORDS, extra={"use_cache": False} if extra is None else extra, **options)


def seq2seq(name, prefix, settings, kind="ForConditionalGeneration", length=8, **options):
    model(name, prefix + "Config", prefix + kind, lambda: {"ids": words(length), "decoder_ids": words(6)},
          ("input_ids", "decoder_input_ids"), settings, classes=WORDS, extra={"use_cache": False}, **options)


def vision(name, prefix, settings, kind="ForImageClassification", size=32, **options):
    model(name, prefix + "Config", prefix + kind, pixels(size), ("pixel_values",), settings, **options)


def speech(name, prefix, settings=None, kind="ForCTC", **options):
    model(name, prefix + "Config", prefix + kind, lambda: {"wave": torch.randn(2, 400)}, ("input_values",),
          {**SPEECH, **(settings or {})}, classes=WORDS, **options)


# ---- encoders of text
encoder("bert", "Bert")
encoder("bert_sdpa", "Bert", attention="sdpa")
model("bert_classifier", "BertConfig", "BertForSequenceClassification", masked(), ("input_ids", "attention_mask"),
      {**BERT, "num_labels": 5})
model("bert_answers", "BertConfig", "BertForQuestionAnswering", masked(), ("input_ids", "attention_mask"), BERT,
      {"start": "cross_entropy", "end": "cross_entropy*0.5"}, pick=lambda r: (r.start_logits, r.end_logits), outputs=("start", "end"))
encoder("roberta", "Roberta")
encoder("xlm_roberta", "XLMRoberta")
encoder("camembert", "Camembert")
encoder("electra", "Electra", {"embedding_size": 16})
encoder("albert", "Albert", {"embedding_size": 16, "num_hidden_groups": 1, "inner_group_num": 1})
encoder("mpnet", "MPNet")
encoder("convbert", "ConvBert", {"embedding_size": 16, "num_groups": 1, "conv_kernel_size": 3, "head_ratio": 2})
encoder("squeezebert", "SqueezeBert", {"embedding_size": WIDE, **{k + "_groups": 2 for k in ("q", "k", "v", "post_attention", "intermediate", "output")}})
encoder("mobilebert", "MobileBert", {"embedding_size": 16, "true_hidden_size": 16, "intra_bottleneck_size": 16}, fold=False)
encoder("megatron_bert", "MegatronBert")
encoder("ernie", "Ernie")
encoder("rembert", "RemBert", {"input_embedding_size": 16, "output_embedding_size": 16, "classifier_dropout_prob": 0.0})
encoder("roformer", "RoFormer", {"embedding_size": WIDE})
model("nystromformer", "NystromformerConfig", "NystromformerForMaskedLM", text(), ("input_ids",),
      {**BERT, "num_landmarks": 4, "segment_means_seq_len": 8, "conv_kernel_size": 3}, classes=WORDS)
encoder("deberta", "Deberta", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 0, "position_biased_input": False})
encoder("deberta_v2", "DebertaV2", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "share_att_key": True, "position_buckets": 4,
                                    "norm_rel_ebd": "layer_norm"})
encoder("longformer", "Longformer", {"attention_window": [4, 4], "onnx_export": True})
encoder("big_bird", "BigBird", {"attention_type": "block_sparse", "block_size": 2, "num_random_blocks": 1}, length=32)
encoder("big_bird_full", "BigBird", {"attention_type": "original_full"})
model("fnet", "FNetConfig", "FNetForMaskedLM", text(), ("input_ids",), {k: v for k, v in BERT.items() if k not in (
    "attention_probs_dropout_prob", "num_attention_heads")}, classes=WORDS)
encoder("esm", "Esm", {"position_embedding_type": "rotary", "mask_token_id": 3})
encoder("xmod", "Xmod", {"languages": ["en_XX"], "default_language": "en_XX"})
encoder("modernbert", "ModernBert", {"local_attention": 4, "global_attn_every_n_layers": 2, "attention_dropout": 0.0, "embedding_dropout": 0.0,
                                     "mlp_dropout": 0.0, "cls_token_id": 1, "sep_token_id": 2})
encoder("data2vec_text", "Data2VecText")
model("distilbert", "DistilBertConfig", "DistilBertForMaskedLM", masked(), ("input_ids", "attention_mask"),
      dict(vocab_size=WORDS, max_position_embeddings=64, n_layers=DEEP, n_heads=HEADS, dim=WIDE, hidden_dim=48, dropout=0.0,
           attention_dropout=0.0, pad_token_id=0), classes=WORDS)
for label, prefix in (("xlm", "XLM"), ("flaubert", "Flaubert")):
    model(label, prefix + "Config", prefix + "WithLMHeadModel", masked(), ("input_ids", "attention_mask"),
          dict(vocab_size=WORDS, emb_dim=WIDE, n_layers=DEEP, n_heads=HEADS, dropout=0.0, attention_dropout=0.0, n_langs=1,
               max_position_embeddings=64, pad_token_id=0, pad_index=0), classes=WORDS)
model("funnel", "FunnelConfig", "FunnelForMaskedLM", masked(), ("input_ids", "attention_mask"),
      dict(vocab_size=WORDS, block_sizes=[1, 1], num_decoder_layers=1, d_model=WIDE, n_head=HEADS, d_head=8, d_inner=48, hidden_dropout=0.0,
           attention_dropout=0.0, activation_dropout=0.0), classes=WORDS)
model("xlnet", "XLNetConfig", "XLNetLMHeadModel", masked(), ("input_ids", "attention_mask"),
      dict(vocab_size=WORDS, d_model=WIDE, n_layer=DEEP, n_head=HEADS, d_inner=48, dropout=0.0), classes=WORDS, extra={"use_mems": False})
model("canine", "CanineConfig", "CanineForSequenceClassification", masked(32), ("input_ids", "attention_mask"),
      {**BERT, "num_labels": 5, "downsampling_rate": 4, "upsampling_kernel_size": 4, "num_hash_functions": 2, "num_hash_buckets": 64,
       "local_transformer_stride": 8})
model("reformer", "ReformerConfig", "ReformerForMaskedLM", text(16), ("input_ids",),
      dict(vocab_size=WORDS, attention_head_size=8, hidden_size=WIDE, num_attention_heads=HEADS, feed_forward_size=48, attn_layers=["local", "local"],
           local_attn_chunk_length=4, axial_pos_shape=[4, 4], axial_pos_embds_dim=[16, 16], hidden_dropout_prob=0.0,
           local_attention_probs_dropout_prob=0.0, is_decoder=False, max_position_embeddings=16), classes=WORDS)
model("perceiver", "PerceiverConfig", "PerceiverForMaskedLM", masked(), ("inputs", "attention_mask"),
      dict(vocab_size=WORDS, d_model=WIDE, d_latents=24, num_latents=6, num_blocks=1, num_self_attends_per_block=2, num_self_attention_heads=2,
           num_cross_attention_heads=2, attention_probs_dropout_prob=0.0, max_position_embeddings=8, qk_channels=16, v_channels=24), classes=WORDS)
model("layoutlm", "LayoutLMConfig", "LayoutLMForMaskedLM", lambda: {"ids": words(), "boxes": torch.randint(0, 30, (2, 8, 1)).expand(2, 8, 4).contiguous()},
      ("input_ids", "bbox"), {**BERT, "max_2d_position_embeddings": 32}, classes=WORDS)
model("lilt", "LiltConfig", "LiltForTokenClassification", lambda: {"ids": words(), "boxes": torch.randint(0, 30, (2, 8, 1)).expand(2, 8, 4).contiguous()},
      ("input_ids", "bbox"), {**BERT, "max_2d_position_embeddings": 32, "channel_shrink_ratio": 2, "num_labels": 5, "hidden_size": 48})

# ---- decoders of text
decoder("gpt2", "GPT2", GPT, kind="LMHeadModel")
decoder("gpt2_sdpa", "GPT2", GPT, kind="LMHeadModel", attention="sdpa")
decoder("openai_gpt", "OpenAIGPT", {**GPT, "afn": "gelu"}, kind="LMHeadModel", extra={})
decoder("gpt_neo", "GPTNeo", dict(vocab_size=WORDS, max_position_embeddings=64, hidden_size=WIDE, num_layers=2, num_heads=HEADS,
                                  attention_types=[[["global", "local"], 1]], window_size=4, intermediate_size=48, attention_dropout=0.0,
                                  embed_dropout=0.0, resid_dropout=0.0))
decoder("gptj", "GPTJ", {**GPT, "rotary_dim": 8})
decoder("gpt_neox", "GPTNeoX", {**BERT, "attention_dropout": 0.0, "hidden_dropout": 0.0})
decoder("gpt_bigcode", "GPTBigCode", GPT)
decoder("codegen", "CodeGen", {**GPT, "rotary_dim": 8, "n_head": 4})
decoder("ctrl", "CTRL", {**GPT, "dff": 48}, kind="LMHeadModel")
decoder("opt", "OPT", dict(vocab_size=WORDS, hidden_size=WIDE, num_hidden_layers=DEEP, ffn_dim=48, num_attention_heads=HEADS, dropout=0.0,
                           attention_dropout=0.0, max_position_embeddings=64, word_embed_proj_dim=16, layerdrop=0.0, pad_token_id=1))
decoder("bloom", "Bloom", dict(vocab_size=WORDS, hidden_size=WIDE, n_layer=DEEP, n_head=HEADS, hidden_dropout=0.0, attention_dropout=0.0))
decoder("mpt", "Mpt", dict(vocab_size=WORDS, d_model=WIDE, n_heads=HEADS, n_layers=DEEP, max_seq_len=64, expansion_ratio=2))
decoder("falcon", "Falcon", dict(vocab_size=WORDS, hidden_size=WIDE, num_hidden_layers=DEEP, num_attention_heads=HEADS, hidden_dropout=0.0,
                                 attention_dropout=0.0))
decoder("biogpt", "BioGpt", {**BERT, "layerdrop": 0.0, "activation_dropout": 0.0})
decoder("xglm", "XGLM", dict(vocab_size=WORDS, d_model=WIDE, ffn_dim=48, num_layers=DEEP, attention_heads=HEADS, dropout=0.0,
                             attention_dropout=0.0, layerdrop=0.0, max_position_embeddings=64))
for name, prefix, more in (
        ("llama", "Llama", {}), ("mistral", "Mistral", {"sliding_window": 4}), ("qwen2", "Qwen2", {}), ("qwen3", "Qwen3", {"head_dim": 8}),
        ("gemma", "Gemma", {"head_dim": 8}), ("gemma2", "Gemma2", {"head_dim": 8, "sliding_window": 4}),
        ("phi", "Phi", {"partial_rotary_factor": 0.5, "resid_pdrop": 0.0}), ("phi3", "Phi3", {"resid_pdrop": 0.0}),
        ("stablelm", "StableLm", {}), ("starcoder2", "Starcoder2", {"residual_dropout": 0.0, "embedding_dropout": 0.0}), ("olmo", "Olmo", {}),
        ("olmo2", "Olmo2", {}), ("cohere", "Cohere", {}), ("granite", "Granite", {}), ("persimmon", "Persimmon", {"hidden_dropout": 0.0}),
        ("glm", "Glm", {"head_dim": 8}), ("nemotron", "Nemotron", {}), ("helium", "Helium", {"head_dim": 8}), ("smollm3", "SmolLM3", {}),
        ("diffllama", "DiffLlama", {}), ("ernie4_5", "Ernie4_5", {}), ("exaone4", "Exaone4", {})):
    decoder(name, prefix, {**LLAMA, **more})
decoder("llama_sdpa", "Llama", LLAMA, attention="sdpa")
decoder("gemma3", "Gemma3", {**LLAMA, "head_dim": 8, "sliding_window": 4}, config="Gemma3TextConfig")
decoder("mixtral", "Mixtral", {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2})
decoder("qwen2_moe", "Qwen2Moe", {**LLAMA, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
                                  "shared_expert_intermediate_size": 24, "decoder_sparse_step": 1})
decoder("granitemoe", "GraniteMoe", {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2})
decoder("olmoe", "Olmoe", {**LLAMA, "num_experts": 4, "num_experts_per_tok": 2})
decoder("gpt_oss", "GptOss", {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8, "sliding_window": 4})
decoder("deepseek_v3", "DeepseekV3", {**LLAMA, "num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2,
                                      "topk_group": 1, "moe_intermediate_size": 24, "kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4,
                                      "qk_nope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 1})
decoder("mamba", "Mamba", dict(vocab_size=WORDS, hidden_size=WIDE, state_size=4, num_hidden_layers=DEEP, conv_kernel=3, time_step_rank=4))
decoder("mamba2", "Mamba2", dict(vocab_size=WORDS, hidden_size=WIDE, state_size=4, num_hidden_layers=DEEP, conv_kernel=3, num_heads=4,
                                 head_dim=16, n_groups=2, chunk_size=4))
decoder("falcon_mamba", "FalconMamba", dict(vocab_size=WORDS, hidden_size=WIDE, state_size=4, num_hidden_layers=DEEP, conv_kernel=3, time_step_rank=4))
decoder("rwkv", "Rwkv", dict(vocab_size=WORDS, hidden_size=WIDE, num_hidden_layers=DEEP, attention_hidden_size=WIDE, intermediate_size=48,
                             context_length=8), mask=False, fold=False)
decoder("recurrent_gemma", "RecurrentGemma", {**LLAMA, "lru_width": WIDE, "attention_window_size": 4, "num_hidden_layers": 3, "head_dim": 8})
decoder("jamba", "Jamba", {**LLAMA, "num_experts": 2, "num_experts_per_tok": 1, "mamba_d_state": 4, "mamba_d_conv": 3, "mamba_dt_rank": 4,
                           "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1,
                           "use_mamba_kernels": False})

# ---- encoder and decoder
seq2seq("t5", "T5", T5)
seq2seq("t5_gated", "T5", {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False})
seq2seq("mt5", "MT5", T5)
seq2seq("umt5", "UMT5", T5)
seq2seq("longt5", "LongT5", {**T5, "local_radius": 3, "encoder_attention_type": "local"})
seq2seq("switch_transformers", "SwitchTransformers", {**T5, "num_experts": 2, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1,
                                                      "router_jitter_noise": 0.0, "expert_capacity": 16})
seq2seq("bart", "Bart", BART)
seq2seq("mbart", "MBart", BART)
seq2seq("marian", "Marian", BART, kind="MTModel")
seq2seq("pegasus", "Pegasus", BART)
seq2seq("blenderbot", "Blenderbot", BART)
seq2seq("m2m_100", "M2M100", BART)
seq2seq("led", "LED", {**BART, "attention_window": [4, 4], "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64})
seq2seq("prophetnet", "ProphetNet", dict(vocab_size=WORDS, hidden_size=WIDE, encoder_ffn_dim=48, decoder_ffn_dim=48, num_encoder_layers=DEEP,
                                         num_decoder_layers=DEEP, num_encoder_attention_heads=HEADS, num_decoder_attention_heads=HEADS,
                                         dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, max_position_embeddings=64))

# ---- images
vision("vit", "ViT", VIT)
vision("deit", "DeiT", VIT)
vision("beit", "Beit", {**VIT, "use_relative_position_bias": True, "drop_path_rate": 0.0})
vision("dinov2", "Dinov2", {**VIT, "mlp_ratio": 2})
vision("ijepa", "IJepa", VIT)
vision("vit_msn", "ViTMSN", VIT)
vision("yolos", "Yolos", {**VIT, "image_size": [32, 32], "num_detection_tokens": 5}, "ForObjectDetection", loss={"scores": "cross_entropy",
       "boxes": "l1*0.5"}, pick=lambda r: (r.logits, r.pred_boxes), outputs=("scores", "boxes"), classes=4)
SWIN = dict(image_size=32, patch_size=4, embed_dim=8, depths=[2, 2], num_heads=[2, 2], window_size=4, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0, drop_path_rate=0.0, num_labels=5)
vision("swin", "Swin", SWIN)
vision("swinv2", "Swinv2", SWIN)
vision("focalnet", "FocalNet", {**SWIN, "focal_levels": [2, 2], "focal_windows": [3, 3], "hidden_sizes": [8, 16]})
vision("convnext", "ConvNext", dict(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, num_labels=5, drop_path_rate=0.0))
vision("convnextv2", "ConvNextV2", dict(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, num_labels=5, drop_path_rate=0.0))
vision("resnet", "ResNet", dict(embedding_size=8, hidden_sizes=[16, 24], depths=[1, 1], num_labels=5))
vision("regnet", "RegNet", dict(embedding_size=8, hidden_sizes=[16, 24], depths=[1, 1], groups_width=8, num_labels=5))
vision("bit", "Bit", dict(embedding_size=32, hidden_sizes=[32, 64], depths=[1, 1], num_groups=4, num_labels=5, drop_path_rate=0.0))
vision("mobilenet_v1", "MobileNetV1", dict(depth_multiplier=0.25, min_depth=4, num_labels=5, classifier_dropout_prob=0.0))
vision("levit", "Levit", dict(image_size=64, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 2, 2], depths=[1, 1, 1], key_dim=[4, 4, 4],
                              drop_path_rate=0, num_labels=5, down_ops=[["Subsample", 4, 4, 4, 2, 2], ["Subsample", 4, 6, 4, 2, 2]]), size=64)
vision("pvt", "Pvt", dict(image_size=64, num_encoder_blocks=4, depths=[1] * 4, hidden_sizes=[8, 16, 16, 16], num_attention_heads=[1, 2, 2, 2],
                          hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, drop_path_rate=0.0, num_labels=5), size=64)
vision("cvt", "Cvt", dict(embed_dim=[8, 16, 16], num_heads=[1, 2, 2], depth=[1, 2, 3], mlp_ratio=[2.0] * 3, attention_drop_rate=[0.0] * 3,
                          drop_rate=[0.0] * 3, drop_path_rate=[0.0] * 3, num_labels=5))
vision("mobilevit", "MobileViT", dict(image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[4, 8, 8, 12, 16, 16, 32], num_attention_heads=2,
                                      hidden_dropout_prob=0.0, classifier_dropout_prob=0.0, num_labels=5), size=64)
vision("swiftformer", "SwiftFormer", dict(image_size=64, depths=[1] * 4, embed_dims=[8, 16, 16, 16], drop_path_rate=0.0, num_labels=5), size=64)
vision("segformer", "Segformer", dict(num_encoder_blocks=4, depths=[1] * 4, hidden_sizes=[8, 16, 16, 16], num_attention_heads=[1, 2, 2, 2],
                                      decoder_hidden_size=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                                      classifier_dropout_prob=0.0, drop_path_rate=0.0, num_labels=5), "ForSemanticSegmentation", size=64)
vision("dpt", "DPT", {**VIT, "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [8, 8, 8, 8],
                      "fusion_hidden_size": 8, "is_hybrid": False, "reassemble_factors": [4, 2, 1, 0.5]}, "ForDepthEstimation", loss="mse")
vision("glpn", "GLPN", dict(num_encoder_blocks=4, depths=[1] * 4, hidden_sizes=[8, 16, 16, 16], num_attention_heads=[1, 2, 2, 2],
                            decoder_hidden_size=8, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, drop_path_rate=0.0),
       "ForDepthEstimation", loss="mse", size=64)
vision("swin2sr", "Swin2SR", dict(image_size=16, patch_size=1, embed_dim=12, depths=[1, 1], num_heads=[2, 2], window_size=4, upscale=2,
                                  hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, drop_path_rate=0.0), "ForImageSuperResolution",
       loss="mse", size=16)
model("imagegpt", "ImageGPTConfig", "ImageGPTForCausalImageModeling", text(16), ("input_ids",), {**GPT, "vocab_size": WORDS}, classes=WORDS - 1,
      extra={"use_cache": False})


def clip_frames():
    return {"frames": torch.randn(2, 4, 3, 16, 16)}


VIDEO = {**VIT, "image_size": 16, "num_frames": 4, "tubelet_size": 2}
model("videomae", "VideoMAEConfig", "VideoMAEForVideoClassification", clip_frames, ("pixel_values",), VIDEO)
model("timesformer", "TimesformerConfig", "TimesformerForVideoClassification", clip_frames, ("pixel_values",), VIDEO)
model("vivit", "VivitConfig", "VivitForVideoClassification", clip_frames, ("pixel_values",), {**VIDEO, "tubelet_size": [2, 8, 8]})

BACKBONE = dict(embedding_size=8, hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1], out_features=["stage4"])
DETR = dict(num_queries=5, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=48, decoder_ffn_dim=48, encoder_attention_heads=2,
            decoder_attention_heads=2, d_model=WIDE, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, num_labels=3,
            encoder_layerdrop=0.0, decoder_layerdrop=0.0, use_timm_backbone=False, use_pretrained_backbone=False, backbone=None)
BOXES = dict(loss={"scores": "cross_entropy", "boxes": "l1*0.5"}, pick=lambda r: (r.logits, r.pred_boxes), outputs=("scores", "boxes"), classes=3)


def detr(name, prefix, more=None, backbone=None, **options):
    def build():
        inner = hf.ResNetConfig(**{**BACKBONE, **(backbone or {})})
        made = getattr(hf, prefix + "Config")(**{**DETR, **(more or {}), "backbone_config": inner})
        made._attn_implementation = "eager"
        return Call(getattr(hf, prefix + "ForObjectDetection")(made), lambda m, x: BOXES["pick"](m(pixel_values=x)))
    add("hf_" + name, "transformers", build, pixels(64), loss=BOXES["loss"], outputs=BOXES["outputs"], classes=3, **options)


detr("detr", "Detr")
detr("conditional_detr", "ConditionalDetr")
detr("table_transformer", "TableTransformer")
detr("deformable_detr", "DeformableDetr", {"num_feature_levels": 3, "encoder_n_points": 2, "decoder_n_points": 2, "disable_custom_kernels": True},
     {"out_features": ["stage2", "stage3", "stage4"]})

# ---- sound
speech("wav2vec2", "Wav2Vec2")
speech("wav2vec2_stable", "Wav2Vec2", {"do_stable_layer_norm": True, "feat_extract_norm": "layer"})
speech("hubert", "Hubert")
speech("wavlm", "WavLM", {"num_buckets": 8, "max_bucket_distance": 16})
speech("unispeech_sat", "UniSpeechSat")
speech("sew", "SEW", {"squeeze_factor": 2})
speech("wav2vec2_conformer", "Wav2Vec2Conformer", {"position_embeddings_type": "relative", "conv_depthwise_kernel_size": 3,
                                                   "conformer_conv_dropout": 0.0, "max_source_positions": 64})
speech("data2vec_audio", "Data2VecAudio", {"conv_pos_kernel_size": 3, "num_conv_pos_embeddings": 2})
model("whisper", "WhisperConfig", "WhisperForConditionalGeneration", lambda: {"mels": torch.randn(2, 8, 24), "decoder_ids": words(6)},
      ("input_features", "decoder_input_ids"), {**BART, "num_mel_bins": 8, "max_source_positions": 12, "max_target_positions": 16},
      classes=WORDS, extra={"use_cache": False})
model("speech_to_text", "Speech2TextConfig", "Speech2TextForConditionalGeneration", lambda: {"mels": torch.randn(2, 24, 8), "decoder_ids": words(6)},
      ("input_features", "decoder_input_ids"), {**BART, "input_feat_per_channel": 8, "conv_channels": 16, "max_source_positions": 64,
                                                "max_target_positions": 64}, classes=WORDS, extra={"use_cache": False})
model("audio_spectrogram_transformer", "ASTConfig", "ASTForAudioClassification", lambda: {"mels": torch.randn(2, 24, 16)}, ("input_values",),
      {**VIT, "max_length": 24, "num_mel_bins": 16, "frequency_stride": 6, "time_stride": 6})
model("encodec", "EncodecConfig", "EncodecModel", lambda: {"wave": torch.randn(2, 1, 128)}, ("input_values",),
      dict(num_filters=4, hidden_size=16, num_residual_layers=1, upsampling_ratios=[4, 2], num_lstm_layers=1, codebook_size=8, codebook_dim=16,
           target_bandwidths=[1.5], sampling_rate=800), "mse", pick=lambda r: r.audio_values)

# ---- text and images
def both(name, prefix, text_more=None, vision_more=None, size=32, **options):
    def build():
        config = getattr(hf, prefix + "Config")(
            text_config={**{k: v for k, v in BERT.items() if k not in ("hidden_dropout_prob", "attention_probs_dropout_prob")}, **(text_more or {})},
            vision_config={**{k: v for k, v in VIT.items() if k not in ("num_labels",)}, **(vision_more or {})}, projection_dim=16)
        config._attn_implementation = "eager"
        return Call(getattr(hf, prefix + "Model")(config), lambda m, ids, x: (lambda r: (r.logits_per_image, r.image_embeds))(
            m(input_ids=ids, pixel_values=x)))
    add("hf_" + name, "transformers", build, lambda: {**text()(), **pixels(size)()}, loss={"y": "cross_entropy", "image": "mse"},
        outputs=("y", "image"), classes=2, **options)


both("clip", "CLIP")
both("siglip", "Siglip")
both("chinese_clip", "ChineseCLIP")
both("altclip", "AltCLIP", {"project_dim": 16})
both("blip", "Blip")
both("owlvit", "OwlViT")
model("vilt", "ViltConfig", "ViltForQuestionAnswering", lambda: {**text()(), **pixels(32)()}, ("input_ids", "pixel_values"),
      {**BERT, **VIT, "max_image_length": 16})
model("visual_bert", "VisualBertConfig", "VisualBertForVisualReasoning", lambda: {"ids": words(), "mask": torch.ones(2, 8).long(), "seen": torch.randn(2, 3, 12)},
      ("input_ids", "attention_mask", "visual_embeds"), {**BERT, "visual_embedding_dim": 12, "num_labels": 5})
model("lxmert", "LxmertConfig", "LxmertForQuestionAnswering", lambda: {"ids": words(), "seen": torch.randn(2, 3, 12), "places": torch.rand(2, 3, 4)},
      ("input_ids", "visual_feats", "visual_pos"), {**{k: v for k, v in BERT.items() if k != "num_hidden_layers"}, "num_qa_labels": 5, "visual_feat_dim": 12,
                                                    "l_layers": 1, "x_layers": 1, "r_layers": 1},
      pick=lambda r: r.question_answering_score)
model("git", "GitConfig", "GitForCausalLM", lambda: {**text()(), **pixels(32)()}, ("input_ids", "pixel_values"),
      {**BERT, "vision_config": {k: v for k, v in VIT.items() if k != "num_labels"}}, classes=WORDS, extra={"use_cache": False})
model("layoutlmv3", "LayoutLMv3Config", "LayoutLMv3ForTokenClassification", lambda: {
    "ids": words(), "boxes": torch.randint(0, 30, (2, 8, 1)).expand(2, 8, 4).contiguous(), "pixels": torch.randn(2, 3, 32, 32)},
    ("input_ids", "bbox", "pixel_values"), {**BERT, "input_size": 32, "patch_size": 8, "max_2d_position_embeddings": 1024, "coordinate_size": 6,
                                            "shape_size": 4, "num_labels": 5, "rel_pos_bins": 8, "rel_2d_pos_bins": 8})

# ---- series of numbers
SERIES = dict(context_length=16, prediction_length=4, num_input_channels=2, d_model=16, num_attention_heads=2, num_hidden_layers=2, ffn_dim=24,
              patch_length=4, patch_stride=4, attention_dropout=0.0, dropout=0.0, head_dropout=0.0, ff_dropout=0.0, path_dropout=0.0,
              positional_dropout=0.0)
model("patchtst", "PatchTSTConfig", "PatchTSTForRegression", lambda: {"past": torch.randn(2, 16, 2)}, ("past_values",),
      {**SERIES, "loss": "mse", "num_targets": 3}, "mse", pick=lambda r: r.regression_outputs)
model("patchtsmixer", "PatchTSMixerConfig", "PatchTSMixerForPrediction", lambda: {"past": torch.randn(2, 16, 2)}, ("past_values",),
      {**SERIES, "loss": "mse"}, "mse", pick=lambda r: r.prediction_outputs)
model("decision_transformer", "DecisionTransformerConfig", "DecisionTransformerModel", lambda: {
    "states": torch.randn(2, 4, 5), "actions": torch.randn(2, 4, 3), "returns": torch.randn(2, 4, 1), "steps": torch.arange(4).expand(2, 4).contiguous(),
    "mask": torch.ones(2, 4)}, ("states", "actions", "returns_to_go", "timesteps", "attention_mask"),
    dict(state_dim=5, act_dim=3, hidden_size=WIDE, max_ep_len=16, n_layer=DEEP, n_head=HEADS, n_inner=48, resid_pdrop=0.0, embd_pdrop=0.0,
         attn_pdrop=0.0, vocab_size=1), "mse", pick=lambda r: r.action_preds)
